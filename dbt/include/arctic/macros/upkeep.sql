{# Upkeep of a model's table: in a hook with `this`, in `dbt run-operation` with the model's name. #}

{% macro arctic_compact(model, mode='auto') -%}
  {%- for line in adapter.arctic_compact(model, mode) -%}{%- do log(line, info=true) -%}{%- endfor -%}
{%- endmacro %}

{% macro arctic_split(model) -%}
  {%- for line in adapter.arctic_split(model) -%}{%- do log(line, info=true) -%}{%- endfor -%}
{%- endmacro %}

{% macro arctic_expire(model) -%}
  {%- for line in adapter.arctic_expire(model) -%}{%- do log(line, info=true) -%}{%- endfor -%}
{%- endmacro %}

{% macro arctic_status(model) -%}
  {%- for line in adapter.arctic_status(model) -%}{%- do log(line, info=true) -%}{%- endfor -%}
{%- endmacro %}

{% macro arctic_restore(model, version) -%}
  {%- for line in adapter.arctic_restore(model, version) -%}{%- do log(line, info=true) -%}{%- endfor -%}
{%- endmacro %}

{% macro arctic_overwrite(model, source, as_of, partition=none) -%}
  {%- for line in adapter.arctic_overwrite(model, source, as_of, partition) -%}
    {%- do log(line, info=true) -%}
  {%- endfor -%}
{%- endmacro %}

{% macro arctic_savepoint(model, name, version=none, drop=false) -%}
  {%- for line in adapter.arctic_savepoint(model, name, version, drop) -%}{%- do log(line, info=true) -%}{%- endfor -%}
{%- endmacro %}
