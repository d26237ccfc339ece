"""The three roles of a PostgreSQL store: one changes the schema, one writes rows, one reads the public views.

`canaryd_migrate` owns the tables, so that `canaryd`, whose password lies on the machine that measures, can neither
drop a trigger nor change a row that was written. `canaryd_ro` reads the views and no table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from canaryd.store import schema
from canaryd.store.schema_texts import reply_text, text_block

#: The views that people and dashboards may rely on; `docs/store.md` names their columns.
PUBLIC_VIEWS = (
    "v_alarm_event",
    "v_window_stat",
    "v_run",
    "v_arm_day",
    "v_item_day",
    "v_model_resolution",
    "v_failed_sample",
    "v_event",
)
_VIEWS = (*PUBLIC_VIEWS, "v_effective_sample")

_ROLES = """
DO $$ DECLARE role text; BEGIN
  FOREACH role IN ARRAY ARRAY['canaryd_migrate', 'canaryd', 'canaryd_ro'] LOOP
    IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = role) THEN EXECUTE format('CREATE ROLE %I LOGIN', role); END IF;
  END LOOP;
  EXECUTE format('REVOKE CREATE ON SCHEMA %I FROM PUBLIC', current_schema());
  EXECUTE format('GRANT USAGE, CREATE ON SCHEMA %I TO canaryd_migrate', current_schema());
  EXECUTE format('GRANT USAGE ON SCHEMA %I TO canaryd, canaryd_ro', current_schema());
END $$;
""".strip()
_FUNCTIONS = """
DO $$ DECLARE function regprocedure; BEGIN
  FOR function IN SELECT oid FROM pg_proc
    WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'canaryd\\_%'
  LOOP EXECUTE format('ALTER FUNCTION %s OWNER TO canaryd_migrate', function); END LOOP;
END $$;
""".strip()
_SEQUENCES = """
DO $$ DECLARE sequence regclass; BEGIN
  FOR sequence IN SELECT pg_get_serial_sequence(quote_ident(table_name), column_name) FROM information_schema.columns
    WHERE table_schema = current_schema() AND column_default LIKE 'nextval(%' AND table_name = ANY (ARRAY[{names}])
  LOOP EXECUTE format('GRANT USAGE ON SEQUENCE %s TO canaryd', sequence); END LOOP;
END $$;
""".strip()


def roles_sql() -> str:
    """Return SQL that makes the roles and gives each what it needs, however often it is run.

    A superuser runs it in the database of the store, and again after each upgrade of the schema.
    """
    return "\n".join(_statements()) + "\n"


def _statements() -> Iterator[str]:
    tables = [table.name for table in (*schema.APPEND_ONLY, schema.lease, *schema.DERIVED)]
    everything = _list((*tables, "alembic_version", *_VIEWS))
    yield _ROLES
    yield from (f"ALTER TABLE {name} OWNER TO canaryd_migrate;" for name in (*tables, "alembic_version"))
    yield from (f"ALTER VIEW {name} OWNER TO canaryd_migrate;" for name in _VIEWS)
    yield _FUNCTIONS
    yield f"REVOKE ALL ON {everything} FROM PUBLIC, canaryd, canaryd_ro;"
    yield f"GRANT SELECT ON {everything} TO canaryd;"
    yield f"GRANT INSERT ON {_list(tables)} TO canaryd;"
    yield f"GRANT UPDATE, DELETE ON lease, {_list(table.name for table in schema.DERIVED)} TO canaryd;"
    yield "-- Their triggers let go only a text that has expired, or that a block holds."
    yield f"GRANT DELETE ON {_list((reply_text.name, text_block.name))} TO canaryd;"
    yield "-- To lock the row of a series needs this; a trigger refuses the change itself."
    yield "GRANT UPDATE (name) ON series TO canaryd;"
    yield _SEQUENCES.format(names=", ".join(f"'{name}'" for name in tables))
    yield f"GRANT SELECT ON {_list(PUBLIC_VIEWS)} TO canaryd_ro;"


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
