{{- define "arctic.name" -}}
{{ .Release.Name | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "arctic.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "arctic.labels" -}}
{{ include "arctic.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | quote }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "arctic.metadata" -}}
name: {{ include "arctic.name" . }}
labels:
  {{- include "arctic.labels" . | nindent 2 }}
{{- end }}

{{/* The target of the profile, which also answers to the names of the service and of the ingress. */}}
{{- define "arctic.profile" -}}
{{- $name := include "arctic.name" . }}
{{- $hosts := list $name (printf "%s.%s" $name .Release.Namespace) (printf "%s.%s.svc" $name .Release.Namespace) }}
{{- $hosts = concat $hosts (list (printf "%s.%s.svc.cluster.local" $name .Release.Namespace)) .Values.profile.allowedHosts }}
{{- if and .Values.ingress.enabled .Values.ingress.host }}{{ $hosts = append $hosts .Values.ingress.host }}{{ end }}
{{- $http := dict "allowed_hosts" $hosts }}
{{- $target := mergeOverwrite (dict "type" "arctic") (deepCopy .Values.profile.target) (dict "serve" (dict "http" $http)) }}
{{- dict .Values.profile.name (dict "target" "live" "outputs" (dict "live" $target)) | toYaml }}
{{- end }}
