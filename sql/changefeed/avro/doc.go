// Package avro words changes of rows in Avro (specification 1.12). It knows no sink and no job.
//
// A value is a record "envelope": after and, if asked for, before, each the row or null; updated;
// and resolved, which is a mark's and null elsewhere. The key of a message is a record of the
// primary key's columns. Each column is a union of null and the type of its values:
//
//   - integers that fit into 64 bits with a sign, YEAR and BIT up to 63: long. BIGINT UNSIGNED and
//     BIT(64): bytes, decimal(20, 0)
//   - DECIMAL: bytes, decimal, with the precision and scale of its type
//   - FLOAT and DOUBLE: float and double
//   - texts, ENUM, SET, TIME and JSON: string, as the JSON format words them; TIME may be longer
//     than a day, or negative, which no type of Avro is; geometries are strings of JSON, too
//   - BINARY, BLOB and VECTOR: bytes
//   - DATE: int, date; DATETIME: long, local-timestamp-micros; TIMESTAMP: long, timestamp-micros.
//     Dates that are none, such as 0000-00-00, are strings: the third type of these unions
//
// Names that Avro does not take have _uXXXX_ for each character that it does not take, as
// CockroachDB has it.
package avro
