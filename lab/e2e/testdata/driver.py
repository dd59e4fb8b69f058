"""Drives two regions with PyMySQL; ends with "ok"."""
import datetime
import decimal
import sys

import pymysql


def connect(addr, db):
    host, port = addr.rsplit(":", 1)
    return pymysql.connect(host=host, port=int(port), user="root", database=db, charset="utf8mb4", connect_timeout=10, read_timeout=60)


def same(got, want):
    assert got == want, f"got {got!r}, want {want!r}"


here, there = (connect(a, sys.argv[3]) for a in sys.argv[1:3])
cur = here.cursor()
cur.execute("CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20) UNIQUE, price DECIMAL(10,2), made DATETIME, raw VARBINARY(20))")
made = datetime.datetime(2024, 2, 29, 12, 30, 1)
rows = [("ä", decimal.Decimal("1.50"), made, b"\x00\xff'"), ("b", None, None, None), ("c%s", decimal.Decimal("-0.01"), made, b"")]
same(cur.executemany("INSERT INTO item (name, price, made, raw) VALUES (%s, %s, %s, %s)", rows), 3)
here.commit()

other = there.cursor()
other.execute("SELECT name, price, made, raw FROM item ORDER BY id")
same(list(other.fetchall()), rows)
there.commit()

other.execute("UPDATE item SET price = price + 1 WHERE name = %s", ("ä",))
same(other.rowcount, 1)
there.rollback()
cur.execute("SELECT price FROM item WHERE name = %s", ("ä",))
same(cur.fetchone()[0], decimal.Decimal("1.50"))
here.commit()

try:
    cur.execute("INSERT INTO item (name) VALUES ('b')")
    raise SystemExit("a taken unique key was accepted")
except pymysql.err.IntegrityError as e:
    same(e.args[0], 1062)
here.rollback()

cur.execute("INSERT INTO item (name) VALUES ('d')")
assert cur.lastrowid > 0
here.commit()

stream = there.cursor(pymysql.cursors.SSDictCursor)
stream.execute("SELECT COUNT(*) AS n, MAX(price) AS top FROM item")
same(stream.fetchone(), {"n": 4, "top": decimal.Decimal("1.50")})
stream.close()
print("ok")
