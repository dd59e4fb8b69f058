"""Reads what EXPORT INTO has written, and writes what IMPORT INTO reads, with pyarrow and DuckDB.

    judge.py read DIRECTORY     prints the rows of a.parquet and a.csv, by each library, as JSON
    judge.py write DIRECTORY    writes pa.parquet, pa.csv, duck.parquet, duck.csv, all of the same rows

It ends with 75 if the libraries are not there: pip install pyarrow duckdb."""
import datetime as dt
import decimal
import json
import sys

try:
    import duckdb
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq
except ImportError as e:
    print(e)
    sys.exit(75)

D = decimal.Decimal
decimal.getcontext().prec = 60


def text(v):
    if v is None:
        return None
    if isinstance(v, (bytes, bytearray)):
        return "0x" + bytes(v).hex()
    if isinstance(v, dt.datetime):
        if v.tzinfo is not None:
            return v.astimezone(dt.timezone.utc).strftime("%Y-%m-%d %H:%M:%S.%f") + "Z"
        return v.isoformat(" ", "microseconds")
    if isinstance(v, (dt.date, dt.time)):
        return v.isoformat()
    if isinstance(v, D):
        return format(v, "f")
    if isinstance(v, float):
        return repr(v)
    return str(v)


def read(d):
    out = {}
    t = pq.read_table(d + "/a.parquet")
    out["pyarrow types"] = [f"{f.name} {f.type}" for f in t.schema]
    out["pyarrow"] = [[text(v) for v in r.values()] for r in t.to_pylist()]
    c = duckdb.connect()
    c.execute("SET TimeZone = 'UTC'")
    r = c.execute(f"SELECT * FROM '{d}/a.parquet'")
    out["duckdb types"] = [f"{x[0]} {x[1]}" for x in r.description]
    out["duckdb"] = [[text(v) for v in r] for r in r.fetchall()]
    t = pa.csv.read_csv(d + "/a.csv", parse_options=pa.csv.ParseOptions(newlines_in_values=True, escape_char=False),
                        convert_options=pa.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""],
                                                              column_types={n: pa.string() for n in t.column_names}))
    out["pyarrow csv"] = [[text(v) for v in r.values()] for r in t.to_pylist()]
    r = c.execute(f"SELECT * FROM read_csv('{d}/a.csv', all_varchar = true, header = true, allow_quoted_nulls = false, quote = '\"', escape = '\"')")
    out["duckdb csv"] = [[text(v) for v in r] for r in r.fetchall()]
    print(json.dumps(out))


def write(d):
    n = 3000
    rows = {
        "id": pa.array(range(n), pa.int32()),
        "u64": pa.array([None if i % 5 == 4 else 2**64 - 1 - i for i in range(n)], pa.uint64()),
        "d": pa.array([None if i % 7 == 3 else D(i * 1001 - 1500000).scaleb(-3) for i in range(n)], pa.decimal128(12, 3)),
        "big": pa.array([D(10**37 + i).scaleb(-10) for i in range(n)], pa.decimal128(38, 10)),
        "e": pa.array([i / 7 for i in range(n)], pa.float64()),
        "day": pa.array([dt.date(1900, 1, 1) + dt.timedelta(days=i) for i in range(n)], pa.date32()),
        "dt": pa.array([dt.datetime(1950, 1, 1, 1, 2, 3, 456789) + dt.timedelta(hours=i) for i in range(n)], pa.timestamp("us")),
        "ts": pa.array([dt.datetime(2001, 1, 1, 1, 2, 3, 456000, dt.timezone.utc) + dt.timedelta(hours=i) for i in range(n)], pa.timestamp("ms", "UTC")),
        "tm": pa.array([dt.time(i % 24, i % 60, i % 59, 250000) for i in range(n)], pa.time64("us")),
        "v": pa.array([None if i % 11 == 5 else f"é\"{i}\",\\\n" for i in range(n)], pa.string()),
        "vb": pa.array([bytes([i % 256, 0, 255, 92, 10]) for i in range(n)], pa.binary()),
        "b": pa.array([None if i % 3 == 0 else i % 2 == 0 for i in range(n)], pa.bool_()),
    }
    t = pa.table(rows)
    pq.write_table(t, d + "/pa.parquet", row_group_size=1000, compression="zstd")
    pq.write_table(t.drop_columns(["u64"]), d + "/old.parquet", version="1.0", use_deprecated_int96_timestamps=True, compression="gzip",
                   use_dictionary=False, data_page_version="1.0")
    plain = t.drop_columns(["vb", "b", "ts"])
    pa.csv.write_csv(plain, d + "/pa.csv")
    c = duckdb.connect()
    c.execute("SET TimeZone = 'UTC'")
    c.register("t", t)
    c.register("plain", plain)
    c.execute(f"COPY t TO '{d}/duck.parquet' (FORMAT parquet, ROW_GROUP_SIZE 2048)")
    c.execute(f"COPY plain TO '{d}/duck.csv.gz' (HEADER, COMPRESSION gzip)")


{"read": read, "write": write}[sys.argv[1]](sys.argv[2])
