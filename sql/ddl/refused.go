package ddl

import (
	"regexp"
	"slices"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/session"
)

var (
	errFiles = mysql.NewSQLError(1290, "HY000",
		"The server reads and writes no files of its own (--secure-file-priv): use LOAD DATA LOCAL INFILE, "+
			"and let the client write what it selects")
	ErrPartitions = mysql.NewSQLError(1178, "42000", "The storage engine for the table doesn't support native partitioning: "+
		"leave the partitions out, rows are spread over shards and regions by themselves")
	errNoPartition = mysql.NewSQLError(1747, "HY000", "PARTITION () clause on non partitioned table")
	errReadLock    = NotYet("FLUSH TABLES WITH READ LOCK", "START TRANSACTION READ ONLY reads one moment of all tables "+
		"(--single-transaction for dumps), and BACKUP saves one of all regions")
	errProxy      = NotYet("PROXY users", "grant a role, which SET ROLE makes active")
	errEncryption = NotYet("ENCRYPTION of tables and databases", "godwit start --encryption-key encrypts the whole store")
	errKeyColumn  = NotYet("DROP COLUMN of a column of the primary key",
		"first ALTER TABLE ... DROP PRIMARY KEY, or DROP PRIMARY KEY, ADD PRIMARY KEY (...) without the column")
)

// NotYet is the refusal of what MySQL can do, and what to do instead.
func NotYet(what, instead string) error {
	return mysql.NewSQLError(1235, "42000", "This version of Godwit doesn't yet support '%s': %s", what, instead)
}

// Refused is the error for a statement that parses, but that go-mysql-server would execute as
// something else; nil for all others. text is the text of the statement. Errors: 1290 for files of
// the server, 1178 and 1747 for partitions, 1286 for storage engines, 1235 for others.
func Refused(stmt sqlparser.Statement, text string) error {
	if err := dropped(stmt, text); err != nil {
		return err
	}
	switch s := stmt.(type) {
	case *sqlparser.Load:
		if !bool(s.Local) && filesOff() {
			return errFiles
		}
		return usesPartition(len(s.Partition) > 0)
	case *sqlparser.Flush:
		if s.Option != nil && s.Option.ReadLock {
			return errReadLock
		}
		return nil
	case *sqlparser.GrantProxy, *sqlparser.RevokeProxy:
		return errProxy
	case *sqlparser.DBDDL:
		if encrypts(text) {
			return errEncryption
		}
		return nil
	case *sqlparser.DDL:
		return refusedDefinition(s, text)
	case *sqlparser.AlterTable:
		if len(s.PartitionSpecs) > 0 || len(s.Statements) == 0 || partitions(text) {
			return ErrPartitions
		}
		if encrypts(text) {
			return errEncryption
		}
		return unknownEngine(text)
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

// refusedDefinition is the error for a definition of which a part would be ignored.
func refusedDefinition(s *sqlparser.DDL, text string) error {
	switch {
	case s.PartitionSpec != nil || s.TableSpec != nil && s.TableSpec.PartitionOpt != nil:
		return ErrPartitions
	case s.TableSpec != nil:
		for _, o := range s.TableSpec.TableOpts {
			if err := refusedOption(strings.ToLower(o.Name), strings.Trim(o.Value, `'"`)); err != nil {
				return err
			}
		}
		if encrypts(text) {
			return errEncryption
		}
		return unknownEngine(text)
	}
	return nil
}

// elsewhere are the storage engines whose tables do not keep the rows that they are given.
var elsewhere = map[string]bool{"blackhole": true, "federated": true, "merge": true, "mrg_myisam": true}

// refusedOption is the error for an option of a table by which its rows would lie somewhere else.
// Options that say how a storage engine keeps them are nothing to a client.
func refusedOption(name, value string) error {
	switch name {
	case "engine":
		if elsewhere[strings.ToLower(value)] {
			return mysql.NewSQLError(1286, "42000", "Unknown storage engine '%s'", value)
		}
	case "connection", "data directory", "index directory", "tablespace", "union":
		return NotYet(strings.ToUpper(name)+" of a table", "SET LOCALITY says where rows lie")
	}
	return nil
}

// outside matches quoted text, comments, and outside of both PARTITION BY or REMOVE PARTITIONING,
// which are its first group, and ENCRYPTION = 'Y', which is its second. A comment that MySQL
// executes (/*! */) is no comment here.
var outside = regexp.MustCompile(`(?is)'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|` + "`[^`]*`" +
	`|/\*\*/|/\*[^!].*?\*/|(?:#|-- )[^\n]*|\b(PARTITION\s+BY|REMOVE\s+PARTITIONING)\b|\b(ENCRYPTION\s*=?\s*['"]Y)`)

// partitions reports whether an ALTER TABLE changes partitions. The syntax tree does not tell: the
// parser drops PARTITION BY behind other changes.
func partitions(text string) bool { return says(text, 1) }

// encrypts reports whether a definition asks for encryption, which the parser drops, too.
func encrypts(text string) bool { return base.ContainsFold(text, "ENCRYPTION") && says(text, 2) }

func says(text string, group int) bool {
	return slices.ContainsFunc(outside.FindAllStringSubmatch(text, -1), func(m []string) bool { return m[group] != "" })
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
