// Package answer is the columns of what the statements of backups return.
package answer

import (
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
)

// Of is what a statement returns that begins with the words of verb: the number of a job if it is
// detached; byTable: of VERIFY BACKUP, what it says of each table.
func Of(verb string, detached, byTable bool) sql.Schema {
	if detached || verb == "BACKUP LOG" {
		return columns("job_id#")
	}
	switch verb {
	case "SHOW BACKUP LOG":
		return columns("from_moment", "to_moment", "target", "segments#", "bytes#")
	case "SHOW BACKUP SCHEDULES":
		return columns("name", "target", "place", "every_minutes#", "full_every_minutes#", "keep_minutes#", "next_run", "last_job#",
			"last_status", "last_error", "last_backup", "last_backup_age_s#", "failures#")
	case "CANCEL JOB", "CREATE BACKUP SCHEDULE", "DROP BACKUP SCHEDULE":
		return types.OkResultSchema
	case "SHOW BACKUP":
		return columns("backup_id", "status", "type", "parent", "moment", "target", "tables#", "rows#", "files#", "bytes#",
			"skipped", "places", "read")
	case "VERIFY BACKUP":
		if byTable {
			return columns("backup_id", "table_name", "status", "rows#", "checksum", "checksum_then")
		}
		return columns("backup_id", "status", "files#", "records#", "bytes#")
	case "FLASHBACK TABLE", "UNDROP TABLE":
		return columns("moment", "tables#", "rows#", "notes")
	case "RESTORE":
		return columns("backup_id", "moment", "tables#", "rows#", "notes")
	}
	return columns("backup_id", "moment", "tables#", "rows#", "files#", "bytes#", "skipped")
}

// columns makes a schema: of numbers where a name ends in #, of texts elsewhere.
func columns(names ...string) sql.Schema {
	s := make(sql.Schema, len(names))
	for i, n := range names {
		s[i] = &sql.Column{Name: strings.TrimSuffix(n, "#"), Type: types.LongText, Nullable: true}
		if strings.HasSuffix(n, "#") {
			s[i].Type = types.Int64
		}
	}
	return s
}
