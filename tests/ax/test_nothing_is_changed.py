"""Behaviour of what others import, as before once our packages are imported."""

import subprocess
import sys

SCRIPT = """
import pickle, warnings
import ax.core.parameter_constraint as constraints
import ax.utils.common.sympy as ax_sympy
import sympy
from ax.storage.sqa_store import db
from sqlalchemy import Column, MetaData, String, Table, Text
from sqlalchemy.dialects import postgresql
from sqlalchemy.schema import CreateTable
from sympy.parsing import sympy_parser


def functions():
    return [
        sympy_parser.parse_expr, sympy_parser.eval_expr,
        sympy.sympify, sympy.parse_expr,
        constraints.ParameterConstraint, constraints.ParameterConstraint.__init__,
        constraints.extract_coefficient_dict_from_inequality, ax_sympy.sympify,
        db.get_session, db.session_scope, db.SESSION_FACTORY, db.Base.metadata,
        warnings.showwarning, warnings.warn,
    ]


def ddl():
    table = Table("t", MetaData(), Column("s", String(20)), Column("t", Text(9)))
    return str(CreateTable(table).compile(dialect=postgresql.dialect()))


# What Ax imports by itself, as it is imported by anybody.
import ax.api.client, botorch.fit, pandas
before, written, filters = functions(), ddl(), list(warnings.filters)
names = set(dir(sympy)) | set(dir(db))
import botorch_pref.ax, botorch_pref.web.app
after = functions()
assert all(x is y for x, y in zip(before, after, strict=True))
assert set(dir(sympy)) | set(dir(db)) == names
assert ddl() == written and "VARCHAR(20)" in written, ddl()
assert pickle.loads(pickle.dumps(sympy.parse_expr)) is sympy.parse_expr
assert pickle.loads(pickle.dumps(sympy_parser.eval_expr)) is sympy_parser.eval_expr
assert constraints.ParameterConstraint("abs(-2)*x <= 3").constraint_dict == {"x": 2.0}
new = [each for each in warnings.filters if each not in filters]
assert not any("botorch_pref" in str(each) for each in new), new
print(len(new))
"""


def test_importing_changes_nothing_for_others() -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0"
