package schema

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/godwitdb/godwit/base"
)

// TabEvents has a row for each event that was executed: lower(db), lower(name) -> Execution.
var TabEvents = base.MakeTableID(10, 0)

// Execution says for which time an event was executed last.
type Execution struct {
	DB   string    `json:"db"`
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// ReadExecution reads a row of TabEvents.
func ReadExecution(b []byte) (e Execution, err error) {
	if err := json.Unmarshal(b, &e); err != nil {
		return e, base.Errorf(base.CodeCorrupt, "the last execution of an event: %v", err)
	}
	return e, nil
}

// EventSpan is where the executions of events are.
func EventSpan() base.Span {
	p := base.IndexPrefix(base.MetaShard, TabEvents, 0, 0)
	return base.Span{Start: p, End: p.PrefixEnd()}
}

// EventKey is the key of the execution of an event.
func EventKey(db, name string) base.Key {
	k := base.IndexPrefix(base.MetaShard, TabEvents, 0, 0)
	k = base.AppendBytes(k, []byte(strings.ToLower(db)))
	return base.AppendBytes(k, []byte(strings.ToLower(name)))
}

// EventName is the name of an event in lower case, by which maps find it.
func EventName(db, name string) [2]string {
	return [2]string{strings.ToLower(db), strings.ToLower(name)}
}

// EventTask is one execution of an event, for the time At: the content of its job.
type EventTask struct {
	DB      string    `json:"db"`
	Name    string    `json:"name"`
	Definer Account   `json:"definer"`
	Body    string    `json:"body"`
	SQLMode string    `json:"sql_mode"`
	At      time.Time `json:"at"`
}
