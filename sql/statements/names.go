package statements

import "strings"

// single are MySQL's names of statements of which the first word tells all.
var single = map[string]string{
	"select": "select", "with": "select", "table": "select", "values": "select", "insert": "insert", "replace": "replace",
	"update": "update", "delete": "delete", "truncate": "truncate", "load": "load", "set": "set_option", "call": "call_procedure",
	"use": "change_db", "begin": "begin", "start": "begin", "commit": "commit", "rollback": "rollback", "savepoint": "savepoint",
	"release": "release_savepoint", "prepare": "prepare_sql", "execute": "execute_sql", "deallocate": "dealloc_sql",
	"explain": "explain_other", "describe": "show_fields", "desc": "show_fields", "analyze": "analyze", "check": "check", "checksum": "checksum",
	"optimize": "optimize", "repair": "repair", "lock": "lock_tables", "unlock": "unlock_tables", "kill": "kill", "flush": "flush",
	"grant": "grant", "revoke": "revoke", "do": "do", "signal": "signal", "resignal": "resignal", "get": "get_diagnostics", "handler": "ha_read",
	"backup": "backup", "restore": "restore", "help": "help", "xa": "xa", "rename": "rename_table",
}

func init() {
	for word, name := range single {
		single[word] = "statement/sql/" + name
	}
}

// double are the objects of CREATE, DROP and ALTER that MySQL's names tell apart, and what comes
// before them.
var double = map[string]string{
	"table": "table", "database": "db", "schema": "db", "view": "view", "index": "index", "trigger": "trigger", "event": "event",
	"procedure": "procedure", "function": "function", "user": "user", "role": "role", "server": "server",
}

// shows are the words behind SHOW for which MySQL has a name of its own.
var shows = map[string]string{
	"databases": "databases", "schemas": "databases", "tables": "tables", "columns": "fields", "fields": "fields", "index": "keys", "indexes": "keys",
	"keys": "keys", "status": "status", "variables": "variables", "processlist": "processlist", "warnings": "warnings", "errors": "errors",
	"grants": "grants", "engines": "storage_engines", "engine": "engine_status", "triggers": "triggers", "events": "events", "privileges": "privileges",
	"collation": "collations", "character": "charsets", "charset": "charsets", "plugins": "plugins", "profiles": "profiles",
	"profile": "profile",
}

// nameOf is MySQL's name of the event of a statement, by its first word in lower case and the text
// of its digest.
func nameOf(kind, text string, failed bool) string {
	if name := single[kind]; name != "" {
		return name
	}
	const sql = "statement/sql/"
	words, of := double, ""
	switch kind {
	case "create", "drop", "alter":
	case "show":
		words = shows
		if rest, is := strings.CutPrefix(text, "SHOW CREATE "); is {
			words, of, text = double, "create_", rest
		}
	default:
		if failed {
			return sql + "error"
		}
		return "statement/com/Query"
	}
	for range 8 { // words such as OR REPLACE, UNIQUE, GLOBAL, FULL
		word, rest, _ := strings.Cut(text, " ")
		if name := words[strings.ToLower(word)]; name != "" {
			return sql + kind + "_" + of + name
		}
		text = rest
	}
	if failed {
		return sql + "error"
	}
	return "statement/com/Query"
}
