#!/usr/bin/env python3
"""Runs SQLAlchemy's own tests of dialects, and of MySQL's, against a Godwit node.

    pip install pymysql pytest setuptools cython
    bin/godwit demo --regions 1 --workload none --sql-port 7940 &
    lab/suites/sqla.py --port 7940 --out docs/sqlalchemy-suite.md

The tests are in SQLAlchemy's source, which pip fetches unless --source has it: test/dialect/test_suite.py is what every
dialect has to pass, test/dialect/mysql what reads MySQL's texts. They make and drop the databases test, test_schema and
test_schema_2. --port of a MariaDB server says what passes there.

What fails must be listed in sqlalchemy_failures.txt, and what is listed must fail; otherwise this ends with 1. It ends
with 75 if the source or a package cannot be had.
"""
import argparse
import collections
import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tarfile
import tempfile
import textwrap
import xml.etree.ElementTree as ET

VERSION = '2.0.43'
PATHS = ['test/dialect/test_suite.py', 'test/dialect/mysql']
FAILURES = pathlib.Path(__file__).with_name('sqlalchemy_failures.txt')
MISSING = 75


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--host', default='127.0.0.1')
    p.add_argument('--port', default='7501')
    p.add_argument('--source', help="directory with SQLAlchemy's unpacked source")
    p.add_argument('--select', help='expression for pytest -k; listed failures need not show then')
    p.add_argument('--timeout', type=int, default=1800, help='seconds in all')
    p.add_argument('--out', help='file for the report')
    return p.parse_args()


def missing(why):
    print(why)
    sys.exit(MISSING)


def source(tmp):
    """Fetches the source, which only pip's own format of it has the tests of."""
    cmd = [sys.executable, '-m', 'pip', 'download', '--quiet', '--no-deps', '--no-binary', ':all:', '--dest', tmp]
    if importlib.util.find_spec('setuptools') and importlib.util.find_spec('Cython'):
        cmd.append('--no-build-isolation')
    p = subprocess.run(cmd + [f'sqlalchemy=={VERSION}'], capture_output=True, text=True)
    found = list(pathlib.Path(tmp).glob('*.tar.gz'))
    if p.returncode != 0 or not found:
        missing("SQLAlchemy's source cannot be had: " + p.stderr.strip()[-300:])
    with tarfile.open(found[0]) as t:
        t.extractall(tmp)
    return next(d for d in pathlib.Path(tmp).iterdir() if d.is_dir())


def databases(a):
    import pymysql
    con = pymysql.connect(host=a.host, port=int(a.port), user='root')
    with con.cursor() as c:
        c.execute('SELECT VERSION()')
        server = c.fetchone()[0]
        for db in ('test', 'test_schema', 'test_schema_2'):
            c.execute(f'DROP DATABASE IF EXISTS {db}')
            c.execute(f'CREATE DATABASE {db} CHARACTER SET utf8mb4')
    con.close()
    return server


def run(a, src, tmp):
    """Runs the tests, and returns the outcome of each by its name."""
    out = pathlib.Path(tmp) / 'out.xml'
    cmd = [sys.executable, '-m', 'pytest', *PATHS, f'--junitxml={out}', '-q', '--tb=line', '--maxfail=100000', '-p', 'no:cacheprovider', '-p', 'no:warnings',
           '--dburi', f'mysql+pymysql://root@{a.host}:{a.port}/test?charset=utf8mb4']
    if a.select:
        cmd += ['-k', a.select]
    p = subprocess.run(cmd, cwd=src, env=dict(os.environ, PYTHONPATH=str(src / 'lib')), capture_output=True, text=True, timeout=a.timeout)
    if not out.exists():
        sys.exit(p.stdout[-2000:] + p.stderr[-2000:])
    tests = {}
    for case in ET.parse(out).getroot().iter('testcase'):
        name = re.sub(r'_(?:mysql|mariadb)\+pymysql[^.]*$', '', case.get('classname').split('.')[-1]) + '.' + case.get('name')
        name = re.sub(r'[^\x21-\x7e]', '_', name)
        kinds = {c.tag for c in case}
        outcome = 'failed' if kinds & {'failure', 'error'} else 'skipped' if 'skipped' in kinds else 'passed'
        if tests.get(name) != 'failed':
            tests[name] = outcome
        if outcome == 'failed':
            print(f"failed {name}: {(next(c for c in case if c.tag in ('failure', 'error')).get('message') or '')[:200]!r}")
    return tests


def listed():
    """The failures that are known: names, or beginnings that end in *, and why."""
    out = []
    for line in FAILURES.read_text().splitlines():
        if line and not line.startswith('#'):
            name, why = line.split('\t')
            out.append((name, why))
    return out


def reasons(tests, known):
    """Failed tests by reason, those of no reason, and lines of the list that no failure needs."""
    by, unknown, needed = collections.Counter(), [], set()
    for name, outcome in tests.items():
        if outcome != 'failed':
            continue
        line = next((k for k in known if k[0] == name or k[0].endswith('*') and name.startswith(k[0][:-1])), None)
        if line is None:
            unknown.append(name)
            continue
        needed.add(line)
        by[line[1]] += 1
    return by, unknown, [k for k in known if k not in needed]


def report(server, tests, by):
    n = collections.Counter(tests.values())
    judged = n['passed'] + n['failed']
    text = (f"Of the tests of dialects in SQLAlchemy {VERSION} (`test/dialect/test_suite.py` and `test/dialect/mysql`), {n['passed']} of {judged} pass against "
            f"{server} ({100 * n['passed'] / max(judged, 1):.1f} %); {n['skipped']} are skipped. MariaDB 10.11 passes all of its 2,093.")
    lines = ["# SQLAlchemy's tests of dialects", '', *textwrap.wrap(text, 118), '',
             'Made by `lab/suites/sqla.py`, which `make e2e` runs. It fails with a test that is not in',
             '`lab/suites/sqlalchemy_failures.txt`.', '', '| Tests | Why they fail |', '|---|---|']
    lines += [f'| {count} | {why} |' for why, count in by.most_common()]
    return '\n'.join(lines) + '\n'


def main():
    a = arguments()
    for package in ('pytest', 'pymysql'):
        if importlib.util.find_spec(package) is None:
            missing(f'{package} is not installed: pip install pymysql pytest')
    with tempfile.TemporaryDirectory() as tmp:
        src = pathlib.Path(a.source) if a.source else source(tmp)
        server = databases(a)
        tests = run(a, src.resolve(), tmp)
    by, unknown, spare = reasons(tests, listed())
    text = report(server, tests, by)
    print(text)
    if a.out:
        pathlib.Path(a.out).write_text(text)
    for name in unknown:
        print('not listed: ' + name)
    if not a.select:
        for name, _ in spare:
            print('listed, and does not fail: ' + name)
    if unknown or spare and not a.select:
        sys.exit(1)


if __name__ == '__main__':
    main()
