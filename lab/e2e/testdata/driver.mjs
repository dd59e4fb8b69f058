// Drives two regions with mysql2; ends with "ok".
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const mysql = createRequire(import.meta.url)("mysql2/promise"); // which, unlike import, looks where packages are installed for all

const [here, there] = await Promise.all(process.argv.slice(2, 4).map((addr) => {
  const [host, port] = addr.split(":");
  return mysql.createConnection({ host, port: Number(port), user: "root", database: process.argv[4], dateStrings: true });
}));

await here.query("CREATE TABLE item (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(20) UNIQUE, price DECIMAL(10,2), made DATETIME, raw VARBINARY(20), n BIGINT)");
// query interpolates on the client, execute uses the binary protocol.
const [done] = await here.query("INSERT INTO item (name, price, made, raw, n) VALUES ?",
  [[["ä", "1.50", "2024-02-29 12:30:01", Buffer.from([0, 255, 39]), 7], ["b", null, null, null, null]]]);
assert.equal(done.affectedRows, 2);
const [one] = await there.execute("SELECT name, price, made, raw, n FROM item WHERE name = ?", ["ä"]);
assert.deepEqual({ ...one[0] }, { name: "ä", price: "1.50", made: "2024-02-29 12:30:01", raw: Buffer.from([0, 255, 39]), n: 7 });
const [again] = await there.execute("SELECT name, price, made, raw, n FROM item WHERE name = ?", ["b"]);
assert.deepEqual({ ...again[0] }, { name: "b", price: null, made: null, raw: null, n: null });

await there.beginTransaction();
await there.execute("UPDATE item SET n = n + ? WHERE name = ?", [35, "ä"]);
await there.rollback();
await there.beginTransaction();
await there.execute("UPDATE item SET n = n + ? WHERE name = ?", [1, "ä"]);
await there.commit();
const [[after]] = await here.query("SELECT n FROM item WHERE name = 'ä'");
assert.equal(after.n, 8);

await assert.rejects(here.execute("INSERT INTO item (name) VALUES (?)", ["b"]), (e) => e.errno === 1062 && e.code === "ER_DUP_ENTRY");
const [last] = await here.execute("INSERT INTO item (name) VALUES (?)", ["c"]);
assert.ok(last.insertId > 0);
const [[count]] = await there.query("SELECT COUNT(*) AS n FROM item");
assert.equal(count.n, 3);
await Promise.all([here.end(), there.end()]);
console.log("ok");
