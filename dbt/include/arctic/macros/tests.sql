{# A test that passed in the last build looks at changed rows alone; see publication/row_tests.py. #}
{% macro arctic__get_test_sql(main_sql, fail_calc, warn_if, error_if, limit) -%}
  {{ default__get_test_sql(adapter.restrict_test(model, main_sql), fail_calc, warn_if, error_if, limit) }}
{%- endmacro %}
