package pages

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var title = regexp.MustCompile(`(?m)\A# (.*)$`)

// covered says which page has each statement: the names in the pages' titles, and those that the
// page of what is refused lists.
func covered(t *testing.T) map[string]string {
	out := map[string]string{}
	for _, name := range names(t) {
		b, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		m := title.FindStringSubmatch(string(b))
		if m == nil {
			t.Fatalf("%s has no title", name)
		}
		all := strings.Split(m[1], ", ")
		if name == "not-supported.md" {
			text, _, _ := strings.Cut(string(b), "\n## ")
			text = strings.ReplaceAll(text, "\n", " ")
			all = nil
			for _, m := range regexp.MustCompile("`([A-Z ]+)`").FindAllStringSubmatch(text, -1) {
				all = append(all, m[1])
			}
		}
		for _, s := range all {
			if other := out[s]; other != "" {
				t.Errorf("%s and %s have %s", other, name, s)
			}
			out[s] = name
		}
	}
	return out
}

// kinds are the statements that the syntax tree of the parser of definitions and SHOW has, by the
// types of its nodes.
var kinds = map[string][]string{
	"SetOp": {"UNION", "INTERSECT", "EXCEPT"}, "Select": {"SELECT", "WITH"}, "ParenSelect": {"SELECT"}, "ValuesStatement": {"VALUES"},
	"Stream": nil, // of Vitess itself: the grammar has no word for it
	"Insert": {"INSERT", "REPLACE"}, "Update": {"UPDATE"}, "Delete": {"DELETE"}, "Set": {"SET"},
	"DBDDL": {"CREATE DATABASE", "DROP DATABASE", "ALTER DATABASE"},
	"DDL": {"CREATE TABLE", "DROP TABLE", "RENAME TABLE", "TRUNCATE TABLE", "CREATE VIEW", "ALTER VIEW", "DROP VIEW", "CREATE INDEX",
		"DROP INDEX", "CREATE TRIGGER", "DROP TRIGGER", "CREATE PROCEDURE", "ALTER PROCEDURE", "DROP PROCEDURE", "CREATE FUNCTION",
		"ALTER FUNCTION", "DROP FUNCTION", "CREATE EVENT", "ALTER EVENT", "DROP EVENT", "ALTER USER", "CREATE TEMPORARY TABLE"},
	"AlterTable": {"ALTER TABLE"}, "Explain": {"EXPLAIN"}, "Use": {"USE"}, "Begin": {"BEGIN", "START TRANSACTION"},
	"Show": {"SHOW DATABASES", "SHOW TABLES", "SHOW TABLE STATUS", "SHOW COLUMNS", "SHOW INDEX", "SHOW VARIABLES", "SHOW STATUS",
		"SHOW PROCESSLIST", "SHOW WARNINGS", "SHOW ERRORS", "SHOW CREATE TABLE", "SHOW CREATE VIEW", "SHOW CREATE DATABASE",
		"SHOW CREATE PROCEDURE", "SHOW CREATE FUNCTION", "SHOW CREATE TRIGGER", "SHOW CREATE EVENT", "SHOW PROCEDURE STATUS",
		"SHOW FUNCTION STATUS", "SHOW TRIGGERS", "SHOW EVENTS", "SHOW ENGINES", "SHOW COLLATION", "SHOW CHARACTER SET", "SHOW PLUGINS"},
	"Commit": {"COMMIT"}, "Rollback": {"ROLLBACK"}, "Flush": {"FLUSH"}, "OtherRead": {"DESCRIBE"}, "OtherAdmin": {"REPAIR TABLE", "OPTIMIZE TABLE"},
	"PurgeBinaryLogs": {"PURGE BINARY LOGS"}, "BeginEndBlock": {"BEGIN ... END"}, "CaseStatement": {"CASE"}, "IfStatement": {"IF"},
	"Signal": {"SIGNAL"}, "Resignal": {"RESIGNAL"}, "Declare": {"DECLARE"}, "OpenCursor": {"OPEN"}, "CloseCursor": {"CLOSE"},
	"FetchCursor": {"FETCH"}, "Loop": {"LOOP"}, "Repeat": {"REPEAT"}, "While": {"WHILE"}, "Leave": {"LEAVE"}, "Return": {"RETURN"},
	"Iterate": {"ITERATE"}, "Call": {"CALL"}, "Load": {"LOAD DATA"}, "Savepoint": {"SAVEPOINT"}, "RollbackSavepoint": {"ROLLBACK TO SAVEPOINT"},
	"ReleaseSavepoint": {"RELEASE SAVEPOINT"}, "LockTables": {"LOCK TABLES"}, "UnlockTables": {"UNLOCK TABLES"}, "Binlog": {"BINLOG"},
	"ChangeReplicationSource": {"CHANGE REPLICATION SOURCE"}, "ChangeReplicationFilter": {"CHANGE REPLICATION FILTER"},
	"StartReplica": {"START REPLICA"}, "StopReplica": {"STOP REPLICA"}, "ResetReplica": {"RESET REPLICA"}, "Kill": {"KILL"},
	"Analyze": {"ANALYZE TABLE"}, "Prepare": {"PREPARE"}, "Execute": {"EXECUTE"}, "Deallocate": {"DEALLOCATE PREPARE"},
	"CreateSpatialRefSys": {"CREATE SPATIAL REFERENCE SYSTEM"}, "SrsAttribute": {"CREATE SPATIAL REFERENCE SYSTEM"},
	"InjectedStatement": nil, // those of TestOwnStatements
	"CreateUser":        {"CREATE USER"}, "RenameUser": {"RENAME USER"}, "DropUser": {"DROP USER"}, "CreateRole": {"CREATE ROLE"},
	"DropRole": {"DROP ROLE"}, "GrantPrivilege": {"GRANT"}, "GrantRole": {"GRANT"}, "GrantProxy": {"GRANT"}, "RevokePrivilege": {"REVOKE"},
	"RevokeRole": {"REVOKE"}, "RevokeProxy": {"REVOKE"}, "ShowGrants": {"SHOW GRANTS"}, "ShowPrivileges": {"SHOW PRIVILEGES"},
}

// TestKinds: each kind of statement that the parser knows has a page.
func TestKinds(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", "{{.Dir}}", "github.com/dolthub/vitess/go/vt/sqlparser").Output()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(strings.TrimSpace(string(out)), "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	pages := covered(t)
	method := regexp.MustCompile(`(?m)^func \((?:\w+ )?\*?(\w+)\) iStatement\(\)`)
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range method.FindAllStringSubmatch(string(b), -1) {
			found++
			all, known := kinds[m[1]]
			if !known {
				t.Errorf("the parser knows statements of the kind %s: give them a page, and name it in kinds", m[1])
			}
			for _, s := range all {
				if pages[s] == "" {
					t.Errorf("no page of docs/statements has %s in its title", s)
				}
			}
		}
	}
	if found < 60 {
		t.Errorf("only %d kinds were found", found)
	}
}

// named are statements of Godwit's own whose names in the code are not those of the pages.
var named = map[string]string{
	"ALTER CLUSTER": "ALTER CLUSTER DROP REGION", "ALTER CLUSTER PROMOTE": "ALTER CLUSTER PROMOTE REGION",
	"ALTER TABLE UNSPLIT": "ALTER TABLE SPLIT", "ALTER DATABASE SET REPLICATION": "ALTER DATABASE",
	"ALTER DATABASE SET PLACEMENT": "ALTER DATABASE", "PLACEMENT": "CREATE PLACEMENT", "IMPORT": "IMPORT INTO", "EXPORT": "EXPORT INTO", "SHOW CHANGEFEED": "SHOW CHANGEFEEDS",
}

// TestOwnStatements: each statement that Godwit parses itself has a page. They are found in the
// code: names of nodes (Name, name) and constants of a type verb.
func TestOwnStatements(t *testing.T) {
	pages := covered(t)
	var all []string
	for _, dir := range []string{"server", "ddl", "backup", "bulk", "changefeed", "replica"} {
		files, err := filepath.Glob("../../sql/" + dir + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasSuffix(f, "_test.go") {
				continue
			}
			syntax, err := parser.ParseFile(token.NewFileSet(), f, nil, parser.SkipObjectResolution)
			if err != nil {
				t.Fatal(err)
			}
			ast.Inspect(syntax, func(n ast.Node) bool {
				all = append(all, statementsOf(n)...)
				return true
			})
		}
	}
	slices.Sort(all)
	all = slices.Compact(all)
	if len(all) < 40 {
		t.Errorf("only %d statements were found: %v", len(all), all)
	}
	for _, s := range all {
		if other := named[s]; other != "" {
			s = other
		}
		if pages[s] == "" {
			t.Errorf("no page of docs/statements has %s in its title", s)
		}
	}
}

var upper = regexp.MustCompile(`^[A-Z]+(?: [A-Z]+)*$`)

// statementsOf are the names of statements that a node of the syntax tree gives: ownNode{name:
// "X"}, PlacementStatement{Name: "X"}, does("X", ...) and const verbX verb = "X".
func statementsOf(n ast.Node) (out []string) {
	take := func(e ast.Expr) {
		if lit, ok := e.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if s, err := strconv.Unquote(lit.Value); err == nil && upper.MatchString(s) {
				out = append(out, s)
			}
		}
	}
	switch n := n.(type) {
	case *ast.CompositeLit:
		if id, ok := n.Type.(*ast.Ident); !ok || id.Name != "ownNode" && id.Name != "PlacementStatement" {
			return nil
		}
		for _, e := range n.Elts {
			if kv, ok := e.(*ast.KeyValueExpr); ok {
				if key, ok := kv.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "name") {
					take(kv.Value)
				}
			}
		}
	case *ast.CallExpr:
		if id, ok := n.Fun.(*ast.Ident); ok && id.Name == "does" {
			take(n.Args[0])
		}
	case *ast.ValueSpec:
		if id, ok := n.Type.(*ast.Ident); ok && id.Name == "verb" {
			for _, v := range n.Values {
				take(v)
			}
		}
	}
	return out
}

// TestWords: each word with which MySQL's names of statements begin has a page (sql/statements).
func TestWords(t *testing.T) {
	syntax, err := parser.ParseFile(token.NewFileSet(), "../../sql/statements/names.go", nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	pages, lists := covered(t), map[string][]string{}
	ast.Inspect(syntax, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.CompositeLit); ok {
			for _, e := range lit.Elts {
				if s, err := strconv.Unquote(e.(*ast.KeyValueExpr).Key.(*ast.BasicLit).Value); err == nil {
					lists[spec.Names[0].Name] = append(lists[spec.Names[0].Name], strings.ToUpper(s))
				}
			}
		}
		return true
	})
	if len(lists["single"]) < 30 || len(lists["double"]) < 10 || len(lists["shows"]) < 20 {
		t.Fatalf("the words were not found: %v", lists)
	}
	same := map[string]string{"DESC": "DESCRIBE", "SHOW SCHEMAS": "SHOW DATABASES", "SHOW FIELDS": "SHOW COLUMNS", "SHOW INDEXES": "SHOW INDEX",
		"SHOW KEYS": "SHOW INDEX", "SHOW CHARSET": "SHOW CHARACTER SET", "CREATE SCHEMA": "CREATE DATABASE", "DROP SCHEMA": "DROP DATABASE",
		"SHOW CHARACTER": "SHOW CHARACTER SET", "RENAME": "RENAME TABLE"}
	has := func(s string) bool {
		if other := same[s]; other != "" {
			s = other
		}
		for p := range pages {
			if p == s || strings.HasPrefix(p, s+" ") {
				return true
			}
		}
		return false
	}
	var want []string
	want = append(want, lists["single"]...)
	for _, s := range lists["double"] {
		want = append(want, "CREATE "+s)
	}
	for _, s := range lists["shows"] {
		want = append(want, "SHOW "+s)
	}
	for _, s := range want {
		if !has(s) {
			t.Errorf("no page of docs/statements has %s in its title", s)
		}
	}
}

// TestIndex: the index leads to each page, and each page has its parts.
func TestIndex(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(folder, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names(t) {
		if !strings.Contains(string(b), "("+name+")") {
			t.Errorf("the index does not lead to %s", name)
		}
		page, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"\n## Across regions\n", "\n## Privileges\n", "\n## Example\n", "\n```sql\n", "\n    "} {
			if !strings.Contains(string(page), part) && !(part == "\n    " && name == "not-supported.md") {
				t.Errorf("%s lacks %q", name, strings.TrimSpace(part))
			}
		}
	}
}
