package ddl

import (
	"regexp"
	"slices"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/sql/session"
)

var (
	errFiles = mysql.NewSQLError(1290, "HY000",
		"The server reads and writes no files of its own (--secure-file-priv): use LOAD DATA LOCAL INFILE, "+
			"and let the client write what it selects")
	errPartitions = mysql.NewSQLError(1178, "42000", "The storage engine for the table doesn't support native partitioning: "+
		"leave the partitions out, rows are spread over shards and regions by themselves")
	errNoPartition = mysql.NewSQLError(1747, "HY000", "PARTITION () clause on non partitioned table")
)

// Refused is the error for a statement that parses, but that go-mysql-server would execute as
// something else; nil for all others. text is the text of the statement. Errors: 1290 for files of
// the server, 1178 and 1747 for partitions.
func Refused(stmt sqlparser.Statement, text string) error {
	switch s := stmt.(type) {
	case *sqlparser.Load:
		if !bool(s.Local) && filesOff() {
			return errFiles
		}
		return usesPartition(len(s.Partition) > 0)
	case *sqlparser.DDL:
		if s.PartitionSpec != nil || s.TableSpec != nil && s.TableSpec.PartitionOpt != nil {
			return errPartitions
		}
		return nil
	case *sqlparser.AlterTable:
		if len(s.PartitionSpecs) > 0 || len(s.Statements) == 0 || partitions(text) {
			return errPartitions
		}
		return nil
	case *sqlparser.Insert:
		if len(s.Partitions) > 0 {
			return errNoPartition
		}
	case *sqlparser.Delete:
		if len(s.Partitions) > 0 {
			return errNoPartition
		}
	case sqlparser.SelectStatement:
		if into := s.GetInto(); into != nil && (into.Outfile != "" || into.Dumpfile != "") && filesOff() {
			return errFiles
		}
	case *sqlparser.Update:
	default:
		return nil
	}
	var used bool
	_ = sqlparser.Walk(func(n sqlparser.SQLNode) (bool, error) {
		t, ok := n.(*sqlparser.AliasedTableExpr)
		used = used || ok && len(t.Partitions) > 0
		return !used, nil
	}, stmt)
	return usesPartition(used)
}

// outside matches quoted text, comments, and PARTITION BY or REMOVE PARTITIONING outside of both;
// only the last two are its group. A comment that MySQL executes (/*! */) is no comment here.
var outside = regexp.MustCompile(`(?is)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|` + "`[^`]*`" +
	`|/\*\*/|/\*[^!].*?\*/|(?:#|-- )[^\n]*|\b(PARTITION\s+BY|REMOVE\s+PARTITIONING)\b`)

// partitions reports whether an ALTER TABLE changes partitions. The syntax tree does not tell: the
// parser drops PARTITION BY behind other changes.
func partitions(text string) bool {
	return slices.ContainsFunc(outside.FindAllStringSubmatch(text, -1), func(m []string) bool { return m[1] != "" })
}

func usesPartition(it bool) error {
	if it {
		return errNoPartition
	}
	return nil
}

// filesOff reports whether the server reads and writes no files of its own.
func filesOff() bool {
	_, v, ok := sql.SystemVariables.GetGlobal(session.FilesVar)
	return ok && v == session.NoFiles
}
