"""The public surface: whoever changes it does so on purpose, here too; and what an import costs."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import arctic_runtime
from arctic_runtime import errors, model, plan

SURFACE = {
    "errors": "ArcticError CatalogError CommitConflict CommitUnknown ConfigError CorruptState DataError PlanError "
    "SourceError SparkEnded",
    "model.branch": "ABANDONED_MS ATTEMPT BRANCH_PREFIX BranchCommit BranchState abandoned_branches lineage "
    "why_not_publish",
    "model.columns": "ACTION BEFORE CHANGE_COLUMNS Column METADATA Names OWN_PREFIX POSITION RESERVED SEQUENCE "
    "SchemaChange TIMESTAMP find_column plain_columns same_name",
    "model.compaction": "Begun CompactionMode CompactionPlan CompactionStep DataFile Direction FileTotals Fold "
    "LeftAlone Meeting Node NodeRange PartitionValue Place RENEWAL_PREFIX Relevel Renew Rewrite Specs TableFiles Way "
    "describe_compaction renewal_branch renewal_end",
    "model.expiry": "AGES Age DropTags Expire ExpiryPlan Kept Snapshot Snapshots TRIMMED Trim VIEW_TAG_PREFIX "
    "ages_text read_ages trimmed_until view_tag",
    "model.key": "KEY_PROPERTY key_names key_text",
    "model.names": "BASE_SUFFIX CHANGES_SUFFIX History TOTALS_SUFFIX TableName changes_read changes_view "
    "history_query history_view image_view named_table",
    "model.nodes": "HashNode KeyValue MAX_DEPTH ROOT bucket_node covering iceberg_hash intersecting node_of",
    "model.savepoint": "Savepoint Tag",
    "model.state": "REPAIRED BaseState ChangeTableState Commit SourceState Stranger TableState ViewState built "
    "not_built",
    "model.step": "AppendChanges CreateBase CreateChangeTable DropBase DropBranches DropStranger EvolveSchema "
    "MergeBase Mode Reason ReplaceView Step describe",
    "model.table": "Changelog Compaction FormatVersion Input Merge Model ModelConfig OnConfigurationChange OnMatch "
    "OnSchemaChange Refresh Retention Transform Unit VERSIONS_SECONDS",
    "model.types": "Array Map Primitive Struct Type array_text field_names has_map has_variant map_primitives map_text "
    "parts plain_name primitives quoted_name read_type struct_text type_text walk_type",
    "model.version": "Version Window decode_versions encode_versions",
    "plan.checks": "over",
    "plan.compaction": "SHOWN_NODES SMALL_FILE_BYTES compaction describe_plan done_by is_worth_a_look plan_waste "
    "small_limit",
    "plan.configure": "KEYS configure read_size user_keys",
    "plan.cost": "AGAIN_SECONDS CHANGE_SECONDS Estimate FADES MANY_SCANS MERGED_SECONDS Past ROW_SECONDS RUN_SECONDS "
    "SCAN_SECONDS TRIED_WITHIN WORTH_SECONDS Way estimates",
    "plan.declared": "DECLARED DECLARED_PARTS Declared Part WHOLE describe_part read_part",
    "plan.decide": "CONSUMED Decision ESTIMATED GIVEN_UP HIGH_MARK JUDGED MODE NO_TOTALS QUERY REASON RESTORED RUN "
    "Request SCHEMA_ONLY SESSION STARTED TOTALS check_table consumed decide holds_nothing last_load "
    "last_run may_be_followed never_strict said_again",
    "plan.expiry": "Needs TAG_SECONDS WORTH_EXPIRING WORTH_SHARE describe_expiry due expiry may_be_due",
    "plan.fingerprint": "RULES fingerprint judged session_text settings_with_effect what_changed",
    "plan.groups": "COMMIT_BYTES GROUP_BYTES GROUP_NODES OPEN_BYTES T groups",
    "plan.increment": "CHANGELOG FEW_ROWS Increment LAID_OVER_ROWS LARGE_SOURCES MOST_CHANGED MOST_COMPARED "
    "MOST_GROUPS PAIRED_ROWS READ_AGAIN Upstreams WITNESS_TIMES analysis check_maintained increment is_appended "
    "is_keyed known_sizes tells_old_rows untold without_totals",
    "plan.incremental.analyse": "Analysed analyse",
    "plan.incremental.bounds": "Bound condition is_bounded joined narrowed",
    "plan.incremental.functions": "check_functions is_aggregate is_generator parse read value_when_empty",
    "plan.incremental.joins": "NO_NODES Placement describe_joins",
    "plan.incremental.maintain": "AFFECTED Deltas Facts Maintenance Units maintain",
    "plan.incremental.numbers": "added_type decimal digits is_whole multiplied_type sum_type wider",
    "plan.incremental.outline": "outline",
    "plan.incremental.pairs": "Pairs pairs",
    "plan.incremental.refusal": "MOST_TEXT NotMaintained Refusal first_line refusing",
    "plan.incremental.render": "input_name query render",
    "plan.incremental.repeatable": "Answers aggregated is_repeatable placed",
    "plan.incremental.shared": "Shared shared",
    "plan.incremental.sizes": "Extent MOVED_ROWS SENT_BYTES SENT_ROWS Sizes UNKNOWN_BYTES",
    "plan.incremental.slices": "Slice Wanted sliced",
    "plan.incremental.totals": "LOST ROWS TOTALS Totals fingerprint of_totals possible_totals totals",
    "plan.incremental.tree": "Aggregate Distinct Explode Filter Given HAS_AFTER HAS_BEFORE Image Join Node OneRow "
    "Project Scan SemiJoin SetOperation Side UnionAll WEIGHT Window before beside children columns "
    "map_children scans sources walk",
    "plan.incremental.unique": "is_one_partner is_unique unique_keys",
    "plan.layout": "KEPT_METADATA LAYOUT MAX_NODES NEWEST_FORMAT ROW_GROUP_BYTES ROW_GROUP_PROPERTY ROW_GROUP_SHARE "
    "SMALL_NODE_BYTES TARGET_PROPERTY format_of is_laid_out lacking laid_out_anew layout_text "
    "node_count row_group_bytes",
    "plan.reads": "Reads UNSTABLE clock_word function_names reads with_position",
    "plan.renewal": "HELD_BYTES MOST_PARTS PART_BYTES RENEWED_NODE_ROWS RENEWED_SHARE TASK_BYTES renewal",
    "plan.relevel": "ABOUT_TO Move SMALLEST_SHARE depth_after splits unites why_not_split",
    "plan.savepoint": "dropped find_savepoint savepoint",
    "plan.schema": "NOT_BUCKETS NOT_KEYS NOT_STORED TypeConflict check_query plan_schema stored_type",
    "plan.upkeep": "read_age read_compaction read_retention",
    "plan.split": "NO_TREE SIDE_BY_SIDE is_done moves_of relevels split worth_it",
    "plan.trim": "KEPT_AGES TRIMS is_due kept_ages trim",
    "plan.trees": "Partition Unit bucket_counts in_tree main_depth units",
    "plan.written": "ArcticSpark Generator Parser Tokenizer WRITTEN WRITTEN_VERSION literals tokens write",
    "plan.settle": "FOLD_COMMITS FOLD_FRACTION MERGED_ROWS MOST_RELAXED relaxation settle stale_branches",
}
WITHOUT_SPARK = (
    "arctic_runtime",
    "config",
    "catalog",
    "observe",
    "files",
    "inspect",
    "drawing",
    "counted",
    "lookup",
    "cli",
    *SURFACE,
)


def public_names(module: str) -> set[str]:
    """The names that a module defines itself at its top level and that don't begin with an underscore."""
    file = importlib.import_module(f"arctic_runtime.{module}").__file__
    assert file is not None
    found: set[str] = set()
    for node in ast.parse(Path(file).read_text(encoding="utf-8")).body:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Assign(targets=targets):
                found.update(target.id for target in targets if isinstance(target, ast.Name))
    return {name for name in found if not name.startswith("_")}


@pytest.mark.parametrize("module", SURFACE)
def test_the_public_names_of_a_module_change_only_on_purpose(module: str) -> None:
    assert sorted(public_names(module)) == sorted(SURFACE[module].split())


def test_no_module_of_the_vocabulary_or_of_the_plans_is_left_out() -> None:
    found = {
        f"{package.__name__.removeprefix('arctic_runtime.')}.{module.name}"
        for package in (model, plan)
        for module in pkgutil.iter_modules(package.__path__)
        if not module.ispkg
    }
    assert found == {name for name in SURFACE if name.count(".") == 1}


def test_what_is_inside_the_maintenance_of_queries_stays_inside() -> None:
    """From outside only the modules of the surface are imported, and all of them are."""
    inside = "arctic_runtime.plan.incremental"
    root = Path(arctic_runtime.__file__).parent
    outside = [file for file in root.rglob("*.py") if root / "plan" / "incremental" not in file.parents]
    used = {
        name.removeprefix("arctic_runtime.")
        for file in outside
        for name in imported(file)
        if name == inside or name.startswith(f"{inside}.")
    }
    assert used == {name for name in SURFACE if name.startswith("plan.incremental.")}


def imported(file: Path) -> set[str]:
    """The modules that a file imports, or imports from."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.ImportFrom(module=str(module)):
                found.add(module)
            case ast.Import(names=names):
                found.update(alias.name for alias in names)
    return found


def test_every_error_is_an_arctic_error_and_stands_in_the_tree() -> None:
    tree = errors.__doc__ or ""
    for name in SURFACE["errors"].split():
        assert issubclass(getattr(errors, name), errors.ArcticError)
        assert name in tree


def test_planning_and_observing_start_without_spark_and_without_dbt() -> None:
    modules = [name if name == "arctic_runtime" else f"arctic_runtime.{name}" for name in WITHOUT_SPARK]
    code = (
        f"import sys, {', '.join(modules)}\n"
        "heavy = {'pyspark', 'py4j', 'dbt', 'pyarrow', 'pandas', 'sqlalchemy'}\n"
        "print(sorted(heavy & {name.split('.')[0] for name in sys.modules}))"
    )
    root = Path(arctic_runtime.__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=root)
    assert done.stdout.strip() == "[]"
