package session

import (
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/sqltypes"
)

// results are what a CALL has for its client. A client that takes several statements in one text
// gets them as if its text went on with MoreResults.
type results struct {
	// Results are those that follow the first one. TakesResults: the client takes several.
	Results      []*sqltypes.Result
	TakesResults bool
	// Then is what the client's text goes on with behind the statement that is executed.
	Then string
}

// MoreResults is what a client's text goes on with while results of its CALL are left.
const MoreResults = "\x00results"

// BeginResults lets the next statement leave results behind its first one.
func (s *Session) BeginResults() { s.results = results{TakesResults: true} }

// Rest is what the client's text goes on with; empty: nothing is left.
func (s *Session) Rest() string {
	switch {
	case s == nil:
		return ""
	case len(s.Results) > 0:
		return MoreResults
	}
	return s.Then
}

// NextResult is the next result of a CALL.
func (s *Session) NextResult() (*sqltypes.Result, error) {
	if len(s.Results) == 0 {
		return nil, mysql.NewSQLError(1105, "HY000", "there are no more results")
	}
	r := s.Results[0]
	s.Results = s.Results[1:]
	return r, nil
}
