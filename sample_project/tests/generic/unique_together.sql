{# The columns' values identify a row: no two rows share them, and none of them is null. #}
{% test unique_together(model, columns) %}
select {{ columns | join(', ') }}, count(*) as row_count
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{%- for column in columns %}
    or {{ column }} is null
{%- endfor %}
{% endtest %}
