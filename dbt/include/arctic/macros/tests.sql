{# A test that passed in the last build looks at changed rows alone; see publication/row_tests.py. #}
{% macro arctic__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
  {{ default__get_test_sql(adapter.restrict_test(model, main_sql), fail_calc, warn_if, error_if, limit) }}
{%- endmacro %}

{% macro arctic__get_limit_sql(sql, limit) -%}
  {{ default__get_limit_sql(arctic_node_sql(sql), limit) }}
{%- endmacro %}

{% macro arctic__get_empty_subquery_sql(select_sql, select_sql_header=none) -%}
  {{ return(default__get_empty_subquery_sql(arctic_node_sql(select_sql), select_sql_header)) }}
{%- endmacro %}

{% macro arctic__get_unit_test_sql(main_sql, expected_fixture_sql, expected_column_names) -%}
  {{ default__get_unit_test_sql(arctic_node_sql(main_sql), expected_fixture_sql, expected_column_names) }}
{%- endmacro %}
