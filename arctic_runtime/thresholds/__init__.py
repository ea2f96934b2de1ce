"""All thresholds, limits and prices of planning and execution, in one immutable object.

`Thresholds()` has the values that dbt-arctic ships with. A profile has one object (`Profile.thresholds`), and functions
take the object, or the group that they need, as an argument. Tests pass objects with other values (`replace`).

Prices were measured on two cores with local files. Settings for users are in a model's configuration, not here.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from arctic_runtime.thresholds.engine import (
    CommitThresholds,
    EngineThresholds,
    ExportThresholds,
    ReportThresholds,
    WhyThresholds,
)
from arctic_runtime.thresholds.ingest import (
    DebeziumThresholds,
    IngestThresholds,
    TransportThresholds,
)
from arctic_runtime.thresholds.planning import (
    BaseRewriteThresholds,
    BucketThresholds,
    ChangelogThresholds,
    CompactionThresholds,
    CostThresholds,
    ExpiryThresholds,
    IncrementalThresholds,
    JoinThresholds,
    LayoutThresholds,
    MergeThresholds,
    PreviewThresholds,
    PruningThresholds,
)
from arctic_runtime.thresholds.service import (
    AgentThresholds,
    HttpThresholds,
    LineageThresholds,
    QueryThresholds,
    ServiceThresholds,
    TelemetryThresholds,
    UpkeepThresholds,
)

__all__ = [
    "SHIPPED",
    "AgentThresholds",
    "BaseRewriteThresholds",
    "BucketThresholds",
    "ChangelogThresholds",
    "CommitThresholds",
    "CompactionThresholds",
    "CostThresholds",
    "DebeziumThresholds",
    "EngineThresholds",
    "ExpiryThresholds",
    "ExportThresholds",
    "HttpThresholds",
    "IncrementalThresholds",
    "IngestThresholds",
    "JoinThresholds",
    "LayoutThresholds",
    "LineageThresholds",
    "MergeThresholds",
    "PreviewThresholds",
    "PruningThresholds",
    "QueryThresholds",
    "ReportThresholds",
    "ServiceThresholds",
    "TelemetryThresholds",
    "Thresholds",
    "TransportThresholds",
    "UpkeepThresholds",
    "WhyThresholds",
]


@dataclass(frozen=True)
class Thresholds:
    """All thresholds, limits and prices, grouped by the part of planning or execution that uses them."""

    cost: CostThresholds = field(default_factory=CostThresholds)
    preview: PreviewThresholds = field(default_factory=PreviewThresholds)
    incremental: IncrementalThresholds = field(default_factory=IncrementalThresholds)
    joins: JoinThresholds = field(default_factory=JoinThresholds)
    pruning: PruningThresholds = field(default_factory=PruningThresholds)
    merge: MergeThresholds = field(default_factory=MergeThresholds)
    compaction: CompactionThresholds = field(default_factory=CompactionThresholds)
    base_rewrite: BaseRewriteThresholds = field(default_factory=BaseRewriteThresholds)
    buckets: BucketThresholds = field(default_factory=BucketThresholds)
    changelog: ChangelogThresholds = field(default_factory=ChangelogThresholds)
    expiry: ExpiryThresholds = field(default_factory=ExpiryThresholds)
    layout: LayoutThresholds = field(default_factory=LayoutThresholds)
    commits: CommitThresholds = field(default_factory=CommitThresholds)
    reports: ReportThresholds = field(default_factory=ReportThresholds)
    exports: ExportThresholds = field(default_factory=ExportThresholds)
    ingest: IngestThresholds = field(default_factory=IngestThresholds)
    service: ServiceThresholds = field(default_factory=ServiceThresholds)
    lineage: LineageThresholds = field(default_factory=LineageThresholds)
    telemetry: TelemetryThresholds = field(default_factory=TelemetryThresholds)
    upkeep: UpkeepThresholds = field(default_factory=UpkeepThresholds)
    http: HttpThresholds = field(default_factory=HttpThresholds)
    queries: QueryThresholds = field(default_factory=QueryThresholds)
    agents: AgentThresholds = field(default_factory=AgentThresholds)
    engine: EngineThresholds = field(default_factory=EngineThresholds)
    debezium: DebeziumThresholds = field(default_factory=DebeziumThresholds)
    transports: TransportThresholds = field(default_factory=TransportThresholds)
    why: WhyThresholds = field(default_factory=WhyThresholds)


SHIPPED = Thresholds()
"""The thresholds that dbt-arctic ships with."""
