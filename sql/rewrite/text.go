package rewrite

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/bound"
	"github.com/godwitdb/godwit/sql/ddl"
	"github.com/godwitdb/godwit/sql/session"
)

var reSysTime = regexp.MustCompile(`(?i)\bAS\s+OF\s+(?:SYSTEM\s+TIME|TIMESTAMP)\b`)

// Text brings the text of a statement to what the parser takes.
func Text(q string) string {
	q = quoteAccount(quoteColumns(rewriteAsOf(ddl.RewriteCreate(unwrap(plainComments(q))))))
	q = analyzeLocal(quotePrimary(plainTypes(currentDefiner(alterView(withParser(q))))))
	// a statement may have a megabyte
	if !base.ContainsFold(q, "SYSTEM") && !base.ContainsFold(q, "TIMESTAMP") || !reSysTime.MatchString(q) {
		return q
	}
	return reSysTime.ReplaceAllString(q, "AS OF")
}

var reAnalyzeLocal = regexp.MustCompile(`(?is)^(\s*ANALYZE\s+)(?:NO_WRITE_TO_BINLOG|LOCAL)\s+(TABLES?\b)`)

// analyzeLocal leaves out what ANALYZE TABLE says of a binary log, which it is not written to.
func analyzeLocal(q string) string {
	if bound.Kind(q) != "analyze" {
		return q
	}
	return reAnalyzeLocal.ReplaceAllString(q, "${1}${2}")
}

var reAlterView = regexp.MustCompile("(?is)^\\s*ALTER\\s+((?:ALGORITHM\\s*=\\s*\\w+\\s+|DEFINER\\s*=\\s*\\S+(?:\\s*@\\s*\\S+)?\\s+|" +
	"SQL\\s+SECURITY\\s+\\w+\\s+)*)VIEW\\b")

// alterView makes ALTER VIEW, which the parser does not know, CREATE OR REPLACE VIEW. Who creates
// the view sees in the text of the client whether there must be one.
func alterView(q string) string {
	if bound.Kind(q) != "alter" || !base.ContainsFold(q, "VIEW") {
		return q
	}
	return reAlterView.ReplaceAllString(q, "CREATE OR REPLACE ${1}VIEW")
}

// AltersView reports whether a statement is ALTER VIEW.
func AltersView(q string) bool { return bound.Kind(q) == "alter" && reAlterView.MatchString(q) }

// plainComments makes comments for MariaDB alone, with which its dumps begin, comments for
// everybody.
func plainComments(q string) string {
	for at := 0; ; {
		rest := strings.TrimLeft(q[at:], " \t\r\n")
		at = len(q) - len(rest)
		end := strings.Index(rest, "*/")
		if !strings.HasPrefix(rest, "/*M!") || end < 0 {
			return q
		}
		q = q[:at] + "/*" + q[at+len("/*M!"):]
		at += end
	}
}

// unwrap takes what a statement that begins with an executable comment, as those of a dump do, has
// in such comments out of them. The text of a trigger or view is stored as it comes, and the next
// dump would wrap it again.
func unwrap(q string) string {
	if !strings.HasPrefix(strings.TrimLeft(q, " \t\r\n"), "/*!") {
		return q
	}
	var b strings.Builder
	for i := 0; i < len(q); {
		switch c := q[i]; {
		case c == '\'' || c == '"' || c == '`':
			j := quotedEnd(q, i)
			b.WriteString(q[i:j])
			i = j
		case strings.HasPrefix(q[i:], "/*!"):
			for i += len("/*!"); i < len(q) && q[i] >= '0' && q[i] <= '9'; i++ {
			}
		case strings.HasPrefix(q[i:], "/*"): // an ordinary comment stays
			j := strings.Index(q[i+2:], "*/")
			if j < 0 {
				return q
			}
			b.WriteString(q[i : i+2+j+2])
			i += 2 + j + 2
		case strings.HasPrefix(q[i:], "*/"):
			i += 2
		default:
			b.WriteByte(c)
			i++
		}
	}
	return strings.TrimSpace(b.String())
}

// quotedEnd is where the quoted text that begins at i ends.
func quotedEnd(q string, i int) int {
	quote := q[i]
	for i++; i < len(q) && q[i] != quote; i++ {
		if q[i] == '\\' && quote != '`' {
			i++
		}
	}
	return min(i+1, len(q))
}

// quotedText matches what is not read as syntax: quoted texts, names, and comments.
const quotedText = "'(?:[^'\\\\]|\\\\.)*'|\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|/\\*.*?\\*/|"

var reColumns = regexp.MustCompile("(?is)" + quotedText + "\\b(?:AFTER\\s+([a-z_][a-z_0-9$]*)|" +
	"CHANGE\\s+(?:COLUMN\\s+)?(`[^`]*`|[a-z_][a-z_0-9$]*)\\s+(`[^`]*`|[a-z_][a-z_0-9$]*)|" +
	"ALTER\\s+(?:COLUMN\\s+)?([a-z_][a-z_0-9$]*)\\s+(?:SET|DROP)\\s+DEFAULT\\b)")

// quoteColumns quotes the names of columns where the engine takes no keyword in ALTER TABLE, and
// status, name, date and type are keywords: behind AFTER, CHANGE and ALTER.
func quoteColumns(q string) string {
	if bound.Kind(q) != "alter" {
		return q
	}
	var out strings.Builder
	done := 0
	for _, m := range reColumns.FindAllStringSubmatchIndex(q, -1) {
		for g := 2; g < len(m); g += 2 {
			if m[g] >= 0 && q[m[g]] != '`' {
				out.WriteString(q[done:m[g]] + "`" + q[m[g]:m[g+1]] + "`")
				done = m[g+1]
			}
		}
	}
	return out.String() + q[done:]
}

var (
	reLength  = regexp.MustCompile("(?is)" + quotedText + "\\b(YEAR\\s*\\(\\s*4\\s*\\)|BLOB\\s*\\(\\s*(\\d+)\\s*\\))")
	rePrimary = regexp.MustCompile("(?is)" + quotedText + "\\b(?:USE|FORCE|IGNORE)\\s+(?:INDEX|KEY)\\s*" +
		"(?:FOR\\s+(?:JOIN|ORDER\\s+BY|GROUP\\s+BY)\\s*)?(\\([^)]*\\))")
	rePrimaryName = regexp.MustCompile("(?i)`[^`]*`|\\b(PRIMARY)\\b")
)

// plainTypes writes types with a length that the engine does not know as those that they are in
// MySQL: YEAR(4) is YEAR, BLOB(n) the smallest type of blobs with room for n bytes.
func plainTypes(q string) string {
	if kind := bound.Kind(q); kind != "alter" && kind != "create" || !base.ContainsFold(q, "YEAR") && !base.ContainsFold(q, "BLOB") {
		return q
	}
	return reLength.ReplaceAllStringFunc(q, func(m string) string {
		found := reLength.FindStringSubmatch(m)
		switch {
		case found[1] == "":
			return m
		case found[2] == "":
			return "YEAR"
		}
		n, err := strconv.ParseUint(found[2], 10, 32)
		switch {
		case err != nil:
			return m // the engine words it
		case n < 1<<8:
			return "TINYBLOB"
		case n < 1<<16:
			return "BLOB"
		case n < 1<<24:
			return "MEDIUMBLOB"
		}
		return "LONGBLOB"
	})
}

var reDefiner = regexp.MustCompile(`(?is)^(\s*CREATE\s+(?:OR\s+REPLACE\s+)?(?:ALGORITHM\s*=\s*\w+\s+)?)` +
	`DEFINER\s*=\s*CURRENT_USER(?:\s*\(\s*\))?\s`)

// currentDefiner leaves out DEFINER = CURRENT_USER, which is the definer without the clause, too.
func currentDefiner(q string) string {
	if !base.ContainsFold(q[:min(len(q), 200)], "CURRENT_USER") {
		return q
	}
	return reDefiner.ReplaceAllString(q, "$1")
}

// quotePrimary quotes the name of the primary key in hints for an index.
func quotePrimary(q string) string {
	if !base.ContainsFold(q, "PRIMARY") || !base.ContainsFold(q, "INDEX") && !base.ContainsFold(q, "KEY") {
		return q
	}
	return rePrimary.ReplaceAllStringFunc(q, func(m string) string {
		list := rePrimary.FindStringSubmatch(m)[1]
		return strings.TrimSuffix(m, list) + rePrimaryName.ReplaceAllStringFunc(list, func(n string) string {
			return "`" + strings.Trim(n, "`") + "`"
		})
	})
}

var reAccount = regexp.MustCompile(`(?is)^(\s*(?:(?:CREATE|DROP|ALTER)\s+(?:USER|ROLE)\s+(?:IF\s+(?:NOT\s+)?EXISTS\s+)?|` +
	`GRANT\s[^;]*\sTO\s+|REVOKE\s[^;]*\sFROM\s+|SHOW\s+GRANTS\s+FOR\s+))([a-z_][\w$]*)`)

// quoteAccount quotes the name of a user, as quoteColumns does those of columns.
func quoteAccount(q string) string {
	m := reAccount.FindStringSubmatchIndex(q)
	if m == nil || strings.EqualFold(q[m[4]:m[5]], "CURRENT_USER") {
		return q
	}
	return q[:m[4]] + "`" + q[m[4]:m[5]] + "`" + q[m[5]:]
}

const asOfForms = `AS\s+OF\s+(?:TIMESTAMP|SYSTEM\s+TIME)\s+(.+?)[;\s]*$`

var (
	reStartAsOf = regexp.MustCompile(`(?is)^\s*START\s+TRANSACTION\s+READ\s+ONLY\s*,?\s*` + asOfForms)
	reNextAsOf  = regexp.MustCompile(`(?is)^\s*SET\s+TRANSACTION\s+READ\s+ONLY\s*,?\s*` + asOfForms)
)

// rewriteAsOf brings TiDB's transactions in the past to assignments, so that the time may be any
// expression.
func rewriteAsOf(q string) string {
	if len(q) > 4096 || !base.ContainsFold(q, "TRANSACTION") {
		return q
	}
	if m := reStartAsOf.FindStringSubmatch(q); m != nil {
		return "SET @@SESSION." + session.StartAsOfVar + " = (" + m[1] + ")"
	}
	if m := reNextAsOf.FindStringSubmatch(q); m != nil {
		return "SET @@SESSION." + session.NextAsOfVar + " = (" + m[1] + ")"
	}
	return q
}

var rePassword = regexp.MustCompile(`(?is)^\s*SET\s+PASSWORD\s*(?:FOR\s+(.+?))?\s*=\s*('(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")\s*;?\s*$`)

// SetPassword makes SET PASSWORD, of a client or of somebody else, an ALTER USER; empty of other
// statements.
func SetPassword(q string, me sql.Client) string {
	m := rePassword.FindStringSubmatch(q)
	if m == nil {
		return ""
	}
	account := m[1]
	if account == "" {
		account = literal(me.User) + "@" + literal(me.Address)
	}
	return "ALTER USER " + account + " IDENTIFIED BY " + m[2]
}

// literal writes a text as one of SQL. A backslash stands for itself where it is doubled only.
func literal(s string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", "''").Replace(s) + "'"
}
