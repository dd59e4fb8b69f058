#!/usr/bin/env python3
"""Runs MariaDB's own regression suite (Debian's mariadb-test, suite main) against a Godwit node.

    apt-get install mariadb-test
    bin/godwit demo --regions 1 --workload none --sql-port 7940 &
    lab/suites/mariadb.py --port 7940 --out docs/mariadb-suite.md

A test passes if MariaDB's client for tests finds every answer byte for byte as MariaDB 10.11 gives it. So it
fails at the first plan, message or default of MariaDB's own. The share says where we stand beside MariaDB, and
the reasons are what is worth reading. The runner of the suite itself wants variables of a MariaDB server, so
this one starts the client for each test. It asks what a test needs of a server in place of the includes that
look for that in tables of MariaDB alone.

With --statements the client goes on after an error and writes down what it gets. Then a statement counts if its text
and its answer are those of the result file, in their place, whatever the other statements of the test did. That takes
the longest for tests of which little works; --sample 4 runs every fourth test.
"""
import argparse
import collections
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time

SYSTEM = {'information_schema', 'mysql', 'performance_schema', 'sys', 'godwit'}
ROOT = pathlib.Path('/usr/share/mysql/mysql-test')


def arguments():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument('--host', default='127.0.0.1')
    p.add_argument('--port', default='7501')
    p.add_argument('--user', default='root')
    p.add_argument('--tests', default='.*', help='regular expression of names')
    p.add_argument('--since', default='', help='begin with this test, in the order of names')
    p.add_argument('--until', default='\x7f', help='end before this test')
    p.add_argument('--timeout', type=int, default=20, help='seconds a test')
    p.add_argument('--limit', type=int, default=0, help='most seconds in all; 0: none')
    p.add_argument('--statements', action='store_true', help='count statements that answer right, too')
    p.add_argument('--sample', type=int, default=1, help='run every so many-th test')
    p.add_argument('--reasons', type=int, default=60, help='reasons of the report')
    p.add_argument('--out', help='file for the report')
    return p.parse_args()


def client(a, *more):
    return [a.client, '--no-defaults', '-h' + a.host, '-P' + a.port, '-u' + a.user, *more]


def clean(a):
    """Drops what tests have left, and makes the database that they expect."""
    names = subprocess.run(client(a, '-N', '-e', 'SELECT HEX(schema_name) FROM information_schema.schemata'), capture_output=True, text=True, timeout=30).stdout.split()
    drop = []
    for name in (bytes.fromhex(n).decode(errors='replace') for n in names):
        if name not in SYSTEM:
            drop.append('DROP DATABASE `' + name.replace('`', '``') + '`;')
    for q in drop + ['CREATE DATABASE test;', 'CREATE DATABASE mtr;',
                     'CREATE PROCEDURE mtr.add_suppression(pattern VARCHAR(255)) SET @suppressed = pattern;']:
        # --binary-mode: the client takes no commands from names
        subprocess.run(client(a, '--binary-mode'), input=q, text=True, capture_output=True, timeout=60)


# Includes that ask tables of MariaDB alone whether a server is built for a test, and what takes their place.
ASSUMED = dict.fromkeys(['have_innodb', 'not_asan', 'not_msan', 'not_ubsan', 'no_msan_without_big', 'not_msan_with_debug', 'have_mutex_deadlock_detector',
                         'default_optimizer_switch', 'restore_default_optimizer_switch'], '')
ASSUMED.update(dict.fromkeys(['have_debug', 'have_debug_sync'], '--skip a server that is built for debugging\n'))


def overlay(tmp):
    """A copy of the suite, by links, with includes that suit any server."""
    at = pathlib.Path(tmp) / 'suite'
    at.mkdir()
    for p in ROOT.iterdir():
        if p.name != 'include':
            (at / p.name).symlink_to(p)
    (at / 'include').mkdir()
    for p in (ROOT / 'include').iterdir():
        if p.stem in ASSUMED and p.suffix == '.inc':
            (at / 'include' / p.name).write_text(ASSUMED[p.stem])
        else:
            (at / 'include' / p.name).symlink_to(p)
    return at


def environment(a, tmp):
    env = dict(os.environ)
    env.update(MYSQL_TEST_DIR=str(a.suite), MYSQLTEST_VARDIR=tmp, MYSQL_TMP_DIR=tmp, MASTER_MYPORT=a.port, MASTER_MYSOCK='',
               MYSQL='mariadb --no-defaults -h%s -P%s -u%s' % (a.host, a.port, a.user), DEFAULT_MASTER_PORT=a.port, CHARSETSDIR='/usr/share/mysql/charsets',
               MYSQL_DUMP='mariadb-dump --no-defaults -h%s -P%s -u%s' % (a.host, a.port, a.user), LC_ALL='C', TZ='GMT-3')
    return env


def run(a, name, tmp):
    """Runs one test: what came of it, and why."""
    result = ROOT / 'main' / (name + '.result')
    if not result.exists():
        return 'skipped', 'no result file'
    cmd = ['mariadb-test', '--no-defaults', '--silent', '--protocol=tcp', '--host=' + a.host, '--port=' + a.port, '--user=' + a.user, '--database=test', '--tmpdir=' + tmp, '--logdir=' + tmp,
           '--basedir=' + str(a.suite) + '/', '--test-file=' + str(a.suite / 'main' / (name + '.test')), '--result-file=' + str(result)]
    try:
        p = subprocess.run(cmd, capture_output=True, text=True, errors='replace', timeout=a.timeout, env=environment(a, tmp), cwd=a.suite)
    except subprocess.TimeoutExpired:
        return 'failed', f'does not end in {a.timeout} s'
    if p.returncode == 0:
        return 'passed', ''
    if p.returncode == 62:
        return 'skipped', reason(p.stdout + p.stderr)
    return 'failed', reason(p.stdout + p.stderr)


def statements(a, name, tmp):
    """Runs one test to its end: how many statements its result file has, and how many are answered so."""
    want, got = ROOT / 'main' / (name + '.result'), pathlib.Path(tmp) / 'got.result'
    got.write_text('')
    cmd = ['mariadb-test', '--no-defaults', '--silent', '--protocol=tcp', '--continue-on-error', '--record', '--host=' + a.host, '--port=' + a.port,
           '--user=' + a.user, '--database=test', '--tmpdir=' + tmp, '--logdir=' + tmp, '--basedir=' + str(a.suite) + '/',
           '--test-file=' + str(a.suite / 'main' / (name + '.test')), '--result-file=' + str(got)]
    try:
        subprocess.run(cmd, capture_output=True, timeout=a.timeout, env=environment(a, tmp), cwd=a.suite)
    except subprocess.TimeoutExpired:
        pass
    lines = want.read_bytes().splitlines()
    wrong = [False] * (len(lines) + 1)
    diff = subprocess.run(['diff', '-a', '-U0', str(want), str(got)], capture_output=True).stdout
    for m in re.finditer(rb'^@@ -(\d+)(?:,(\d+))? ', diff, re.M):
        first, n = int(m[1]), int(m[2] or 1)
        for i in range(first - 1, first - 1 + n) if n else [max(first - 1, 0)]:
            wrong[i] = True
    return count(lines, wrong)


def count(lines, wrong):
    """Statements of a result file, and those none of whose lines is wrong: a line that ends a statement, and its answer."""
    all, right, begun, ok = 0, 0, False, True
    for line, bad in zip(lines + [b';'], wrong):
        if line.rstrip().endswith(b';'):
            if begun:
                all, right = all + 1, right + ok
            begun, ok = True, True
        ok = ok and not bad
    return all, right


def reason(text):
    m = re.search(r"failed: (?:\S+ \()?(\d+)\)?: (.*)", text)
    if m:
        words = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`|\d+", '_', m.group(2))
        return f'error {m.group(1)}: {words[:70]}'
    if 'mismatch' in text:
        for line in text.splitlines():
            if re.match(r'\+[^+]', line):
                return 'another answer' if 'EXPLAIN' not in text.upper() else 'another answer, of a test with EXPLAIN'
        return 'another answer'
    for line in text.splitlines():
        if 'succeeded - should have failed' in line:
            return 'no error where MariaDB has ' + re.sub(r'.*with (?:error|errno) ', '', line)[:40]
    return (text.strip().splitlines() or ['nothing said'])[-1][:80]


def report(a, names, counts, reasons, answered, took):
    judged = counts['passed'] + counts['failed']
    share = 100 * counts['passed'] / max(judged, 1)
    text = (f"Of MariaDB 10.11's suite `main`, {counts['passed']} of {judged} tests pass against one Godwit node ({share:.1f} %), and {counts['skipped']} are skipped "
            f'for want of something that they ask for. A test fails at its first answer that is not byte for byte that of MariaDB: a plan, a message, a default of its own '
            f'will do. It took {took:.0f} s.')
    if a.sample > 1:
        text += f' Every {a.sample}th test was run.'
    if answered['all']:
        text += (f" Of the {answered['all']:,} statements of these tests {answered['right']:,} are answered as MariaDB answers them "
                 f"({100 * answered['right'] / answered['all']:.1f} %), when each test goes on after an error.")
    if a.since or a.until != '\x7f':
        text += f' These are {names[0]} to {names[-1]} in the order of names.'
    lines = ["# MariaDB's regression suite", '', *textwrap.wrap(text, 118), '', 'Made by `lab/suites/mariadb.py`.', '', '| Tests | Why they fail first |', '|---|---|']
    for why, n in reasons.most_common(a.reasons):
        if n > 1:
            lines.append('| %d | %s |' % (n, why.replace('|', '\\|')))
    lines.append('| %d | something that fails no other test first |' % sum(n for n in reasons.values() if n == 1))
    return '\n'.join(lines) + '\n'


def main():
    a = arguments()
    a.client = shutil.which('mariadb')
    if not ROOT.exists() or not a.client or not shutil.which('mariadb-test'):
        sys.exit('mariadb-test is not installed: apt-get install mariadb-test mariadb-client')
    names = sorted(p.stem for p in (ROOT / 'main').glob('*.test') if re.search(a.tests, p.stem) and a.since <= p.stem < a.until)[::a.sample]
    counts, reasons, answered, began = collections.Counter(), collections.Counter(), collections.Counter(), time.time()
    with tempfile.TemporaryDirectory() as tmp:
        a.suite = overlay(tmp)
        for name in names:
            if a.limit and time.time() - began > a.limit:
                break
            clean(a)
            what, why = run(a, name, tmp)
            counts[what] += 1
            if what == 'failed':
                reasons[why] += 1
            if a.statements and what == 'passed':
                all, _ = count((ROOT / 'main' / (name + '.result')).read_bytes().splitlines(), iter(lambda: False, None))
                answered.update(all=all, right=all)
            elif a.statements and what == 'failed':
                clean(a)
                all, right = statements(a, name, tmp)
                answered.update(all=all, right=right)
                why += f' ({right} of {all} statements)'
            print(f'{what:8} {name:40} {why}', flush=True)
    text = report(a, names, counts, reasons, answered, time.time() - began)
    print(text)
    if a.out:
        pathlib.Path(a.out).write_text(text)


if __name__ == '__main__':
    main()
