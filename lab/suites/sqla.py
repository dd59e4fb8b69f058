#!/usr/bin/env python3
"""Runs SQLAlchemy's suite for dialects against a Godwit node.

    pip install sqlalchemy pymysql pytest
    bin/godwit demo --regions 1 --workload none --sql-port 7940 &
    lab/suites/sqla.py --port 7940 --out docs/sqlalchemy-suite.md

The suite (sqlalchemy.testing.suite) is what a new dialect has to pass. It runs with SQLAlchemy's own dialect for
MySQL, so that what fails is Godwit's. --port of a MariaDB server says what passes there.
"""
import argparse
import collections
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap
import xml.etree.ElementTree as ET

CONFTEST = '''
import pytest
from sqlalchemy.testing.plugin.pytestplugin import *
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")
'''

REQUIREMENTS = '''
from sqlalchemy.testing.requirements import SuiteRequirements
from sqlalchemy.testing import exclusions


class Requirements(SuiteRequirements):
    """What MySQL can do, where the suite does not ask the server."""
    update_where_target_in_subquery = exclusions.closed()
    mod_operator_as_percent_sign = exclusions.open()
    sane_rowcount = exclusions.open()
    computed_columns = exclusions.open()
    views = exclusions.open()
    savepoints = exclusions.open()
    window_functions = exclusions.open()
    ctes = exclusions.open()
    datetime_historic = exclusions.open()
    table_ddl_if_exists = exclusions.open()
    unicode_ddl = exclusions.open()
    order_by_col_from_union = exclusions.open()
    foreign_key_constraint_option_reflection_ondelete = exclusions.open()
    intersect = exclusions.open()
    except_ = exclusions.open()
'''


NO_TEMPORARY = '''
    temporary_tables = exclusions.closed()
    temp_table_reflection = exclusions.closed()
    temp_table_reflect_indexes = exclusions.closed()
    temp_table_names = exclusions.closed()
'''


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--host', default='127.0.0.1')
    p.add_argument('--port', default='7501')
    p.add_argument('--select', help='expression for pytest -k')
    p.add_argument('--no-temporary', action='store_true', help='leave temporary tables out, which fixtures of most tests of reflection make')
    p.add_argument('--timeout', type=int, default=1800, help='seconds in all')
    p.add_argument('--out', help='file for the report')
    return p.parse_args()


def databases(a):
    """Makes the databases that the suite expects."""
    import pymysql
    con = pymysql.connect(host=a.host, port=int(a.port), user='root')
    with con.cursor() as c:
        for db in ('test', 'test_schema', 'test_schema_2'):
            c.execute(f'DROP DATABASE IF EXISTS {db}')
            c.execute(f'CREATE DATABASE {db} CHARACTER SET utf8mb4')
    con.close()


def run(a, tmp):
    tmp = pathlib.Path(tmp)
    (tmp / 'test').mkdir()
    (tmp / 'test' / '__init__.py').write_text('')
    (tmp / 'conftest.py').write_text(CONFTEST)
    (tmp / 'godwit_requirements.py').write_text(REQUIREMENTS + (NO_TEMPORARY if a.no_temporary else ''))
    (tmp / 'test' / 'test_suite.py').write_text('from sqlalchemy.testing.suite import *\n')
    (tmp / 'setup.cfg').write_text('[tool:pytest]\naddopts = -p no:warnings\n[sqla_testing]\nrequirement_cls=godwit_requirements:Requirements\nprofile_file=profiles.txt\n'
                                   f'[db]\ndefault=mysql+pymysql://root@{a.host}:{a.port}/test?charset=utf8mb4\n')
    cmd = [sys.executable, '-m', 'pytest', 'test/test_suite.py', '--junitxml=out.xml', '-q', '--tb=line', '--maxfail=100000', '-p', 'no:cacheprovider']
    if a.select:
        cmd += ['-k', a.select]
    p = subprocess.run(cmd, cwd=tmp, env={'PYTHONPATH': str(tmp), 'PATH': '/usr/bin:/bin'}, capture_output=True, text=True, timeout=a.timeout)
    if not (tmp / 'out.xml').exists():
        sys.exit(p.stdout[-2000:] + p.stderr[-2000:])
    return ET.parse(tmp / 'out.xml').getroot()


def reason(node):
    text = (node.get('message') or '') + '\n' + (node.text or '')
    m = re.search(r'\((\d{4}), [\'"](.*?)[\'"]\)', text)
    if m:
        words = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+", '_', m.group(2))
        return f'error {m.group(1)}: {words[:70]}'
    first = text.strip().splitlines()
    return re.sub(r'0x[0-9a-f]+|\d+', '_', first[0])[:90] if first else 'nothing said'


def main():
    a = arguments()
    try:
        import sqlalchemy
    except ImportError:
        sys.exit('SQLAlchemy is not installed: pip install sqlalchemy pymysql pytest')
    databases(a)
    counts, reasons = collections.Counter(), collections.Counter()
    with tempfile.TemporaryDirectory() as tmp:
        for case in run(a, tmp).iter('testcase'):
            kinds = {c.tag for c in case}
            if 'skipped' in kinds:
                counts['skipped'] += 1
            elif kinds & {'failure', 'error'}:
                counts['failed'] += 1
                why = reason(next(c for c in case if c.tag in ('failure', 'error')))
                reasons[why] += 1
                print(f"failed {case.get('classname')}.{case.get('name')}: {why}")
            else:
                counts['passed'] += 1
    judged = counts['passed'] + counts['failed']
    text = (f"Of SQLAlchemy {sqlalchemy.__version__}'s suite, {counts['passed']} of {judged} tests pass against one Godwit node ({100 * counts['passed'] / max(judged, 1):.1f} %); "
            f"{counts['skipped']} are skipped." + (' Temporary tables are left out.' if a.no_temporary else ''))
    lines = ["# SQLAlchemy's suite for dialects", '', *textwrap.wrap(text, 118), '', 'Made by `lab/suites/sqla.py`.', '', '| Tests | Why they fail |', '|---|---|']
    lines += ['| %d | %s |' % (n, why.replace('|', '\\|')) for why, n in reasons.most_common(60)]
    text = '\n'.join(lines) + '\n'
    print(text)
    if a.out:
        pathlib.Path(a.out).write_text(text)


if __name__ == '__main__':
    main()
