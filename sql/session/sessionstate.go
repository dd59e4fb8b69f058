package session

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/shopspring/decimal"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/zone"
	"github.com/godwitdb/godwit/wire"
)

// remoteState is what a session keeps for statements that run in another region: on
// behalf of another gateway here, or there for this one.
type remoteState struct {
	// Remote marks a session that executes statements of another gateway; source is that one's
	// region.
	Remote bool
	Source base.RegionID
	// ClientEnded reports whether the client will send nothing more, where it has sent all that it
	// was asked for. Nil: there is no client.
	ClientEnded func() bool
	// commitTS is when the last transaction committed.
	commitTS base.Timestamp

	NoForward bool // SET godwit_forward = OFF
	// state is what travels with forwarded statements, encoded; nil if it must be gathered again.
	// stateDB is the database that it names.
	state   []byte
	stateDB string
}

// ForwardVariable lets a session keep its statements at its own gateway.
const ForwardVariable = "godwit_forward"

// Region is the region of the client's gateway.
func (s *Session) Region() base.RegionID {
	if s.Source != 0 {
		return s.Source
	}
	return s.env.DB.Region()
}

// Home is where the client's new rows are at home: its gateway's region, or the one that takes over
// from one that is being dropped.
func (s *Session) Home() base.RegionID { return s.env.DB.Topology().HomeFor(s.Region()) }

// SetSessionVariable implements sql.Session.
func (s *Session) SetSessionVariable(ctx *sql.Context, name string, v any) error {
	if t, ok := v.(string); ok && len(t) > mostOfVariable {
		return sql.ErrInvalidSystemVariableValue.New(name, t[:64]+"...")
	}
	if done, err := s.setStale(ctx, name, v); done {
		return err
	}
	if c := s.env.DB.Topology().Concurrency; c.Ordered() && strings.EqualFold(name, ConsistencyVar) {
		return schema.ClientError(base.Errorf(base.CodeInvalid,
			"the consistency of this cluster is fixed: it orders transactions by timestamps (concurrency control %s)", c))
	}
	if err := mayTalk(strings.ToLower(name), v); err != nil {
		return err
	}
	v = connected(strings.ToLower(name), v)
	s.state = nil
	if err := s.BaseSession.SetSessionVariable(ctx, name, v); err != nil {
		return err
	}
	switch strings.ToLower(name) {
	case insertIDVar, identityVar: // one variable of two names: what LAST_INSERT_ID() is
		if to, err := s.BaseSession.GetSessionVariable(ctx, name); err == nil {
			id, _ := to.(int64)
			s.GetLastQueryInfo().LastInsertId.Store(id)
		}
	case clientSetVar, resultsSetVar:
		s.readCharsets(ctx)
	case OwnEngineVar:
		s.readEngine(ctx)
	case completionVar:
		s.readCompletion(ctx)
	case workersVar:
		s.readWorkers(ctx)
	case ForwardVariable:
		s.readForward(ctx)
	case IsolationVar:
		err := s.setIsolation(ctx, name)
		s.strict = s.level == Serializable
		return err
	case ConsistencyVar:
		s.readConsistency(ctx)
	case waitTimeoutVar, maxTimeVar, ReadOnlyVar, longQueryVar, lockWaitVar:
		s.readTimes(ctx)
	case sqlModeVar:
		s.readTexts(ctx)
	}
	return nil
}

// InitSessionVariable implements sql.Session.
func (s *Session) InitSessionVariable(ctx *sql.Context, name string, v any) error {
	s.state = nil
	return s.BaseSession.InitSessionVariable(ctx, name, v)
}

// InitSessionVariableDefault implements sql.Session.
func (s *Session) InitSessionVariableDefault(ctx *sql.Context, name string, v any) error {
	s.state = nil
	return s.BaseSession.InitSessionVariableDefault(ctx, name, v)
}

func (s *Session) readForward(ctx *sql.Context) {
	v, err := s.GetSessionVariable(ctx, ForwardVariable)
	if err == nil {
		var on bool
		on, err = sql.ConvertToBool(ctx, v)
		s.NoForward = !on
	}
	s.NoForward = s.NoForward || err != nil
}

// The kinds of a variable's value.
const (
	valueString = iota
	valueInt
	valueUint
	valueFloat
	valueDecimal
	// valueRoles are the active roles, which are no variable.
	valueRoles
)

// StateBytes is the state that travels, encoded so that equal states have equal bytes; nil if it
// cannot.
func (s *Session) StateBytes() []byte {
	if db := s.GetCurrentDatabase(); s.state == nil || s.stateDB != db {
		client := s.Client()
		st := &wire.SessionState{User: client.User, Host: client.Address, Database: db,
			Capabilities: client.Capabilities, Region: uint32(s.Region())}
		var ok bool
		if st.Variables, ok = s.changedVariables(); !ok {
			return nil
		}
		if !s.addSystemZone(st) {
			return nil
		}
		if r := s.roles.chosen; r.Some {
			st.Variables = append(st.Variables, &wire.SessionVariable{Kind: valueRoles, Text: r.encode()})
		}
		b, err := st.MarshalVT()
		if err != nil {
			return nil
		}
		s.state, s.stateDB = b, db
	}
	return s.state
}

// addSystemZone names the zone of this machine to the executor, whose own may be another one; false
// if it has no name.
func (s *Session) addSystemZone(st *wire.SessionState) bool {
	v, err := s.GetSessionVariable(sql.NewContext(context.Background(), sql.WithSession(s)), zone.Variable)
	if name, ok := v.(string); err != nil || !ok || !strings.EqualFold(name, zone.SystemName) {
		return err == nil
	}
	name, ok := zone.SystemZone()
	st.Variables = append(st.Variables, &wire.SessionVariable{Name: zone.Variable, Kind: valueString, Text: name})
	return ok
}

// changedVariables are the session's variables that differ from MySQL's defaults, by name; false if
// one cannot travel.
func (s *Session) changedVariables() (out []*wire.SessionVariable, ok bool) {
	for name, v := range s.BaseSession.GetAllSessionVariables() {
		sv, _, known := sql.SystemVariables.GetGlobal(name)
		if !known || sv.IsReadOnly() || sv.IsGlobalOnly() || name == ForwardVariable || name == StalenessVar ||
			fmt.Sprint(v) == fmt.Sprint(sv.GetDefault()) {
			continue
		}
		w := &wire.SessionVariable{Name: name}
		switch x := v.(type) {
		case string:
			w.Kind, w.Text = valueString, x
		case int8, int16, int32, int64, int:
			w.Kind, w.Text = valueInt, fmt.Sprint(x)
		case uint8, uint16, uint32, uint64, uint:
			w.Kind, w.Text = valueUint, fmt.Sprint(x)
		case float64:
			w.Kind, w.Text = valueFloat, strconv.FormatFloat(x, 'g', -1, 64)
		case decimal.Decimal:
			w.Kind, w.Text = valueDecimal, x.String()
		case bool:
			w.Kind, w.Text = valueInt, "0"
			if x {
				w.Text = "1"
			}
		default:
			return nil, false
		}
		out = append(out, w)
	}
	slices.SortFunc(out, func(a, b *wire.SessionVariable) int { return strings.Compare(a.Name, b.Name) })
	return out, true
}

// Assume gives a fresh session the state of another one.
func (s *Session) Assume(ctx context.Context, st *wire.SessionState) error {
	sctx := sql.NewContext(ctx, sql.WithSession(s))
	mine, ok := s.changedVariables()
	if !ok {
		return base.Errorf(base.CodeInvalid, "this node's variables cannot be reset")
	}
	for _, v := range mine { // by SET GLOBAL at this node
		sv, _, _ := sql.SystemVariables.GetGlobal(v.Name)
		if err := s.SetSessionVariable(sctx, v.Name, sv.GetDefault()); err != nil {
			return err
		}
	}
	if s.roles.chosen.Some { // by the default of this node
		s.SetRoles(Roles{})
	}
	for _, v := range st.Variables {
		if v.Kind == valueRoles {
			r, err := decodeRoles(v.Text)
			if err != nil {
				return err
			}
			s.SetRoles(r)
			continue
		}
		x, err := variableValue(v)
		if err == nil {
			err = s.SetSessionVariable(sctx, v.Name, x)
		}
		if err != nil {
			return err
		}
	}
	s.SetCurrentDatabase(st.Database)
	return nil
}

func variableValue(v *wire.SessionVariable) (any, error) {
	switch v.Kind {
	case valueString:
		return v.Text, nil
	case valueInt:
		return strconv.ParseInt(v.Text, 10, 64)
	case valueUint:
		return strconv.ParseUint(v.Text, 10, 64)
	case valueFloat:
		return strconv.ParseFloat(v.Text, 64)
	case valueDecimal:
		return decimal.NewFromString(v.Text)
	}
	return nil, base.Errorf(base.CodeInvalid, "variable %s has a value of unknown kind %d", v.Name, v.Kind)
}
