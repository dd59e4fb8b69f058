package sysschema

import (
	"regexp"
	"strings"
	"sync"

	"github.com/godwitdb/godwit/sql/schema"
)

// functions are those of the database, without CREATE FUNCTION and their characteristics.
var functions = []string{
	"format_bytes(n DECIMAL(40,0)) RETURNS TEXT RETURN CASE WHEN n IS NULL THEN NULL WHEN n < 1024 THEN CONCAT(n, ' bytes') " +
		"WHEN n < 1048576 THEN CONCAT(ROUND(n / 1024, 2), ' KiB') WHEN n < 1073741824 THEN CONCAT(ROUND(n / 1048576, 2), ' MiB') " +
		"WHEN n < 1099511627776 THEN CONCAT(ROUND(n / 1073741824, 2), ' GiB') WHEN n < 1125899906842624 " +
		"THEN CONCAT(ROUND(n / 1099511627776, 2), ' TiB') ELSE CONCAT(ROUND(n / 1125899906842624, 2), ' PiB') END",
	"format_time(ps DECIMAL(40,0)) RETURNS TEXT RETURN CASE WHEN ps IS NULL THEN NULL WHEN ps >= 604800000000000000 THEN CONCAT(ROUND(ps / 604800000000000000, 2), ' w') " +
		"WHEN ps >= 86400000000000000 THEN CONCAT(ROUND(ps / 86400000000000000, 2), ' d') WHEN ps >= 3600000000000000 THEN CONCAT(ROUND(ps / 3600000000000000, 2), ' h') " +
		"WHEN ps >= 60000000000000 THEN CONCAT(ROUND(ps / 60000000000000, 2), ' m') WHEN ps >= 1000000000000 THEN CONCAT(ROUND(ps / 1000000000000, 2), ' s') " +
		"WHEN ps >= 1000000000 THEN CONCAT(ROUND(ps / 1000000000, 2), ' ms') WHEN ps >= 1000000 THEN CONCAT(ROUND(ps / 1000000, 2), ' us') " +
		"WHEN ps >= 1000 THEN CONCAT(ROUND(ps / 1000, 2), ' ns') ELSE CONCAT(ps, ' ps') END",
	"format_statement(statement LONGTEXT) RETURNS LONGTEXT RETURN CASE WHEN CHAR_LENGTH(statement) > 64 THEN " +
		"REPLACE(CONCAT(LEFT(statement, 30), ' ... ', RIGHT(statement, 30)), '\n', ' ') ELSE REPLACE(statement, '\n', ' ') END",
	"format_path(path VARCHAR(512)) RETURNS VARCHAR(512) RETURN path",
	"quote_identifier(name TEXT) RETURNS TEXT RETURN CONCAT('`', REPLACE(name, '`', '``'), '`')",
	"extract_schema_from_file_name(path VARCHAR(512)) RETURNS VARCHAR(64) RETURN " +
		"LEFT(SUBSTRING_INDEX(SUBSTRING_INDEX(REPLACE(path, '\\\\', '/'), '/', -2), '/', 1), 64)",
	"extract_table_from_file_name(path VARCHAR(512)) RETURNS VARCHAR(64) RETURN " +
		"LEFT(SUBSTRING_INDEX(REPLACE(SUBSTRING_INDEX(REPLACE(path, '\\\\', '/'), '/', -1), '@0024', '$'), '.', 1), 64)",
	"list_add(list TEXT, item TEXT) RETURNS TEXT RETURN CASE WHEN item IS NULL THEN NULL WHEN list IS NULL OR TRIM(list) = '' THEN item " +
		"ELSE CONCAT(TRIM(BOTH ',' FROM TRIM(list)), ',', item) END",
	"list_drop(list TEXT, item TEXT) RETURNS TEXT RETURN CASE WHEN item IS NULL THEN NULL WHEN list IS NULL THEN list " +
		"ELSE TRIM(BOTH ',' FROM REPLACE(CONCAT(',', REPLACE(list, ', ', ','), ','), CONCAT(',', item, ','), ',')) END",
	"version_major() RETURNS TINYINT UNSIGNED RETURN SUBSTRING_INDEX(VERSION(), '.', 1)",
	"version_minor() RETURNS TINYINT UNSIGNED RETURN SUBSTRING_INDEX(SUBSTRING_INDEX(VERSION(), '.', 2), '.', -1)",
	"version_patch() RETURNS TINYINT UNSIGNED RETURN SUBSTRING_INDEX(SUBSTRING_INDEX(SUBSTRING_INDEX(VERSION(), '-', 1), '.', 3), '.', -1)",
	"sys_get_config(name VARCHAR(128), fallback VARCHAR(128)) RETURNS VARCHAR(128) RETURN " +
		"CASE name WHEN 'statement_truncate_len' THEN '64' ELSE fallback END",
	"ps_is_account_enabled(h VARCHAR(255), u VARCHAR(32)) RETURNS ENUM('YES', 'NO') RETURN 'YES'",
	"ps_thread_id(connection BIGINT UNSIGNED) RETURNS BIGINT UNSIGNED RETURN COALESCE(connection, CONNECTION_ID())",
}

var reFunction = regexp.MustCompile(`^(\w+)\(.*?\) RETURNS .*? RETURN `)

// known are the functions of the database, by their names in lower case.
var known = sync.OnceValue(func() map[string]*schema.ObjectDesc {
	out := map[string]*schema.ObjectDesc{}
	for _, f := range functions {
		name := f[:strings.IndexByte(f, '(')]
		at := reFunction.FindStringIndex(f)[1] - len("RETURN ")
		out[name] = &schema.ObjectDesc{DB: Schema, Name: name, Function: &schema.RoutineDesc{
			Text:   "CREATE FUNCTION " + f[:at] + "NO SQL DETERMINISTIC " + f[at:],
			Access: "NO SQL", Deterministic: true, Charset: "utf8mb4", Connection: "utf8mb4_0900_ai_ci", Collation: "utf8mb4_0900_ai_ci"}}
	}
	return out
})

// Function is a function of the database by its name in lower case; nil: there is none, or it is
// another database.
func Function(db, name string) *schema.ObjectDesc {
	if !strings.EqualFold(db, Schema) {
		return nil
	}
	return known()[name]
}
