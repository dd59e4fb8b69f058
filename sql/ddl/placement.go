package ddl

import (
	"regexp"
	"strings"
)

// A table's locality is part of its definition, in CockroachDB's words:
//
//	CREATE TABLE t (...) LOCALITY GLOBAL
//
// SHOW CREATE TABLE writes it as a comment for a version that no MySQL or MariaDB has, so that a
// dump keeps it (clients send such comments on) and other servers can read the dump, too:
//
//	CREATE TABLE t (...) ENGINE=InnoDB ... /*!99999 LOCALITY GLOBAL */
const (
	localityForms = `LOCALITY\s+(?:GLOBAL|MULTI\s+MASTER|REGIONAL\s+BY\s+ROW|` +
		`REGIONAL\s+BY\s+TABLE(?:\s+IN\s+(?:PRIMARY\s+REGION|'[^']*'|"[^"]*"|[\w.-]+))?)`
	replicationForms = `REPLICATION\s+(?:SYNC|ASYNC)`
	livesForms       = `(?:` + localityForms + `(?:\s+` + replicationForms + `)?|` + replicationForms + `)`
	placedForms      = "(?:" + partsForms + "|PLACEMENT\\s+(?:`[^`]+`|[\\w$]+))"
	whereForms       = `(?:` + placedForms + `(?:\s+` + livesForms + `)?|` + livesForms + `)`
	splitForms       = `SPLIT\s+INTO\s+\d{1,6}\s+(?:SHARDS|TABLETS)`
	placementForms   = `(?:` + whereForms + `(?:\s+` + splitForms + `)?|` + splitForms + `)`
	LocalityMark     = "/*!99999 "
	// LocalityOption carries the clause through the grammar, which lacks it, to the plan.
	LocalityOption = "SECONDARY_ENGINE_ATTRIBUTE"
)

var (
	reCreateTable  = regexp.MustCompile(`(?is)^\s*CREATE\s+(?:TEMPORARY\s+)?TABLE\b`)
	reMarkedClause = regexp.MustCompile(`(?is)/\*!99999\s+(` + placementForms + `)\s*\*/`)
	rePlainClause  = regexp.MustCompile(`(?is)\b(` + placementForms + `)\s*;?\s*$`)
	// reNamed is in front of a name, as that of a table that is called as the clause begins.
	reNamed = regexp.MustCompile(`(?is)(?:\b(?:FROM|JOIN|TABLE|AS|LIKE|UPDATE|INTO)|,|\.)\s*$`)
	// RePlaced matches a text that is a PLACEMENT, LOCALITY, REPLICATION or SPLIT clause, or
	// several in this order, and nothing else.
	RePlaced         = regexp.MustCompile(`(?is)^` + placementForms + `$`)
	reCreateDatabase = regexp.MustCompile(`(?is)^(\s*CREATE\s+(?:DATABASE|SCHEMA)\b.*?)(/\*!99999\s+(` +
		replicationForms + `)\s*\*/|\b(` + replicationForms + `))\s*;?\s*$`)
	// RePlacement takes such a text apart: 1 is the placement, or all of PLACEMENT BY, 2 the
	// locality, 3 the replication, 4 the number of shards.
	RePlacement = regexp.MustCompile("(?is)^(?:(" + partsForms + "|PLACEMENT\\s+(?:`[^`]+`|[\\w$]+))\\s*)?" +
		`(?:LOCALITY\s+(.+?))?\s*(?:REPLICATION\s+(\w+))?\s*(?:SPLIT\s+INTO\s+(\d+)\s+\w+)?$`)
	rePartsFirst = regexp.MustCompile(`(?is)^PLACEMENT\s+BY\s*\(`)
	reParts      = regexp.MustCompile(`(?is)^` + partsForms + `$`)
	// rePlaceName is the name of the placement of a whole table.
	rePlaceName = regexp.MustCompile(`(?is)^PLACEMENT\s+`)
)

// RewriteCreate turns the locality clause of a CREATE TABLE into a table option, and leaves out
// IF NOT EXISTS where the parser does not know it.
func RewriteCreate(q string) string {
	q = withoutIfNotExists(q)
	if m := reCreateDatabase.FindStringSubmatch(q); m != nil {
		return m[1] // createsAsync reads the clause
	}
	if !reCreateTable.MatchString(q) {
		return q
	}
	re := rePlainClause
	if strings.Contains(q, LocalityMark) {
		re = reMarkedClause
	}
	m := re.FindStringSubmatchIndex(q)
	if m == nil || re == rePlainClause && reNamed.MatchString(q[:m[2]]) {
		return q
	}
	end := m[1]
	if re == rePlainClause {
		end = m[3]
	}
	clause := q[m[2]:m[3]]
	if rePartsFirst.MatchString(clause) { // its texts keep their quotes
		clause = strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(clause)
	} else {
		clause = strings.ReplaceAll(clause, `"`, "'")
	}
	return q[:m[0]] + LocalityOption + ` = "` + clause + `"` + q[end:]
}

// createsAsync reports whether a CREATE DATABASE says that tables are to be asynchronous.
func createsAsync(q string) bool {
	m := reCreateDatabase.FindStringSubmatch(q)
	return m != nil && strings.HasSuffix(strings.ToUpper(m[3]+m[4]), "ASYNC")
}
