package session

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"

	"github.com/godwitdb/godwit/sql/charset"
)

// The variables that say how the client writes and reads.
const (
	clientSetVar  = "character_set_client"
	resultsSetVar = "character_set_results"

	connectionSetVar       = "character_set_connection"
	connectionCollationVar = "collation_connection"
)

// mayTalk is why texts of the client cannot be in a character set (1231); nil: they can.
func mayTalk(name string, v any) error {
	text, ok := v.(string)
	if !ok || name != clientSetVar && name != resultsSetVar {
		return nil // it is a number, DEFAULT, NULL, or the engine words what is wrong with it
	}
	if id, err := sql.ParseCharacterSet(text); err == nil {
		if _, ok = charset.Of(id); !ok {
			return mysql.NewSQLError(1231, "42000", "Variable '%s' can't be set to the value of '%s'", name, text)
		}
	}
	return nil
}

// connected is what a variable of literals is set to. Statements are UTF-8 when they are parsed,
// so where the engine does not know a character set, literals are of that.
func connected(name string, v any) any {
	text, ok := v.(string)
	if !ok {
		return v
	}
	switch name {
	case connectionSetVar:
		if id, err := sql.ParseCharacterSet(text); err == nil && id.Encoder() == nil {
			return sql.CharacterSet_utf8mb4.Name()
		}
	case connectionCollationVar:
		if id, err := sql.ParseCollation("", text, false); err == nil && (id.Sorter() == nil || id.CharacterSet().Encoder() == nil) {
			return DefaultCollation.Name()
		}
	}
	return v
}

// readCharsets notes in which character sets the client speaks.
func (s *Session) readCharsets(ctx *sql.Context) {
	of := func(name string) *charset.Set {
		v, err := s.BaseSession.GetSessionVariable(ctx, name)
		text, ok := v.(string)
		if err != nil || !ok {
			return nil
		}
		id, err := sql.ParseCharacterSet(text)
		if err != nil {
			return nil
		}
		set, _ := charset.Of(id)
		return set
	}
	s.reads, s.answers = of(clientSetVar), of(resultsSetVar)
}

// Texts implements charset.Client. As in MySQL, a client that names another collation than one of
// UTF-8 as it logs in has said SET NAMES.
func (s *Session) Texts(id uint8) (statements, results *charset.Set) {
	if s == nil {
		return nil, nil // it is not there yet
	}
	if !s.greeted {
		s.greeted = true
		s.greet(sql.CollationID(id))
	}
	return s.reads, s.answers
}

// Undone implements charset.Client.
func (s *Session) Undone() *charset.Undone {
	if s == nil {
		return &charset.Undone{}
	}
	return &s.undone
}

func (s *Session) greet(id sql.CollationID) {
	name := id.Name()
	set, ok := charset.Of(id.CharacterSet())
	if set == nil || !ok || name == "" {
		return
	}
	ctx := sql.NewContext(context.Background(), sql.WithSession(s))
	for _, v := range []string{clientSetVar, resultsSetVar, connectionSetVar} {
		_ = s.InitSessionVariable(ctx, v, connected(v, id.CharacterSet().Name()))
	}
	_ = s.InitSessionVariable(ctx, connectionCollationVar, connected(connectionCollationVar, strings.ToLower(name)))
	s.readCharsets(ctx)
}

// GetCharacterSetResults implements sql.Session. Results are UTF-8 until they get to the client.
func (s *Session) GetCharacterSetResults() sql.CharacterSetID {
	if s.answers != nil {
		return sql.CharacterSet_utf8mb4
	}
	return s.BaseSession.GetCharacterSetResults()
}

// OwnEngineVar says whether our own engine runs SELECTs and changes. Without it go-mysql-server
// runs all that are not by key.
const OwnEngineVar = "godwit_own_engine"

func (s *Session) readEngine(ctx *sql.Context) {
	v, err := s.BaseSession.GetSessionVariable(ctx, OwnEngineVar)
	on, ok := v.(int8)
	s.LeavesAll = err == nil && ok && on == 0
}

// Foreign reports whether the client's statements are in another character set than UTF-8. Their
// literals are bytes of that where they become binary strings.
func (s *Session) Foreign() bool { return s != nil && s.reads != nil }
