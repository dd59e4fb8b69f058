package replica

import (
	"context"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"

	"github.com/godwitdb/godwit/kv/job"
	"github.com/godwitdb/godwit/sql/follow"
)

// statusNames are the columns of SHOW REPLICA STATUS, as MySQL 8.0 has them. A # ends the names of
// numbers.
const statusNames = "Replica_IO_State Source_Host Source_User Source_Port# Connect_Retry# Source_Log_File Read_Source_Log_Pos# " +
	"Relay_Log_File Relay_Log_Pos# Relay_Source_Log_File Replica_IO_Running Replica_SQL_Running Replicate_Do_DB Replicate_Ignore_DB " +
	"Replicate_Do_Table Replicate_Ignore_Table Replicate_Wild_Do_Table Replicate_Wild_Ignore_Table Last_Errno# Last_Error Skip_Counter# " +
	"Exec_Source_Log_Pos# Relay_Log_Space# Until_Condition Until_Log_File Until_Log_Pos# Source_SSL_Allowed Source_SSL_CA_File " +
	"Source_SSL_CA_Path Source_SSL_Cert Source_SSL_Cipher Source_SSL_Key Seconds_Behind_Source# Source_SSL_Verify_Server_Cert " +
	"Last_IO_Errno# Last_IO_Error Last_SQL_Errno# Last_SQL_Error Replicate_Ignore_Server_Ids Source_Server_Id# Source_UUID " +
	"Source_Info_File SQL_Delay# SQL_Remaining_Delay# Replica_SQL_Running_State Source_Retry_Count# Source_Bind " +
	"Last_IO_Error_Timestamp Last_SQL_Error_Timestamp Source_SSL_Crl Source_SSL_Crlpath Retrieved_Gtid_Set Executed_Gtid_Set " +
	"Auto_Position# Replicate_Rewrite_DB Channel_Name Source_TLS_Version Source_public_key_path Get_Source_public_key# Network_Namespace"

// oldWords are those of SHOW SLAVE STATUS.
var oldWords = strings.NewReplacer("Get_Source_public_key", "Get_master_public_key", "Source_public_key_path", "Master_public_key_path",
	"Source", "Master", "Replica_", "Slave_")

func statusSchema(old bool) (s sql.Schema) {
	for _, n := range strings.Fields(statusNames) {
		c := &sql.Column{Name: strings.TrimSuffix(n, "#"), Type: types.LongText, Nullable: true}
		if strings.HasSuffix(n, "#") {
			c.Type = types.Int64
		}
		if old {
			c.Name = oldWords.Replace(c.Name)
		}
		s = append(s, c)
	}
	return s
}

// live is what a node that follows knows, and its job tells others every few seconds.
type live struct {
	State     string          `json:"state,omitempty"`
	Connected bool            `json:"connected,omitempty"`
	Read      follow.Position `json:"read"`
	Server    uint32          `json:"server,omitempty"` // the source's number
	// Latest is when the last change that was applied was committed, by this cluster's clock; the
	// zero time, and Idle: there is nothing more.
	Latest time.Time `json:"latest"`
	Idle   bool      `json:"idle,omitempty"`
	// IO and SQL are failures that may go away.
	IO  *failure `json:"io,omitempty"`
	SQL *failure `json:"sql,omitempty"`
}

// Words of the states.
const (
	stateWaiting    = "Waiting for source to send event"
	stateConnecting = "Connecting to source"
	stateRetry      = "Waiting to reconnect after a failed source event read"
	stateNode       = "Waiting for a node of the cluster to go on"
)

// status is the row of a channel.
func (g *Env) status(ctx context.Context, c *channel) (sql.Row, error) {
	var now live
	io, apply := "No", "No"
	if c.Job != 0 {
		if r := g.running(c.Job); r != nil {
			now = r.progress()
		} else if rec, err := job.Find(ctx, g.DB, c.Job); err != nil {
			return nil, err
		} else if now, err = g.told(rec); err != nil {
			return nil, err
		}
		io, apply = "Connecting", "Yes"
		if now.Connected {
			io = "Yes"
		}
	}
	ioError, applyError := c.IO, c.SQL
	if c.Job != 0 {
		ioError, applyError = now.IO, now.SQL
	}
	read := now.Read
	if read.File == "" {
		read = c.At
	}
	var behind any
	switch {
	case !now.Connected:
	case now.Idle || now.Latest.IsZero():
		behind = int64(0)
	default:
		behind = max(0, int64(time.Since(now.Latest)/time.Second))
	}
	applying := ""
	if c.Job != 0 {
		applying = "Replica has read all relay log; waiting for more updates"
		if now.Connected && !now.Idle {
			applying = "Reading event from the relay log"
		}
	}
	allowed, verified := "No", "No"
	if c.SSL {
		allowed = "Yes"
	}
	if c.Verify {
		verified = "Yes"
	}
	ioNumber, ioText, ioWhen := ioError.shown()
	sqlNumber, sqlText, sqlWhen := applyError.shown()
	return sql.Row{now.State, c.Host, c.User, int64(c.Port), int64(c.Retry), read.File, int64(read.Off),
		"", int64(0), c.At.File, io, apply, "", strings.Join(systemDatabases, ","),
		"", "", "", "", sqlNumber, sqlText, int64(0), // the old names of Last_SQL_Errno and Last_SQL_Error
		int64(c.At.Off), int64(0), "None", "", int64(0), allowed, "",
		"", "", "", "", behind, verified,
		ioNumber, ioText, sqlNumber, sqlText, "", int64(now.Server), "",
		"", int64(0), nil, applying, int64(c.Retries), "",
		ioWhen, sqlWhen, "", "", "", "",
		int64(0), "", c.Name, "", "", int64(1), ""}, nil
}

// shown is a failure in columns.
func (f *failure) shown() (number int64, text, when string) {
	if f == nil {
		return 0, "", ""
	}
	return int64(f.Number), f.Text, f.When.Format("060102 15:04:05")
}
