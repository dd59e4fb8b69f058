package server

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/types"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/sql/schema"
)

// Settings of the whole cluster, in the syntax of CockroachDB:
//
//	SHOW CLUSTER SETTINGS | SHOW CLUSTER SETTING name
//	SET CLUSTER SETTING name = value | DEFAULT
//
// They are rows of the meta shard; every node takes a change over when it sees it.

// Setting is one of them.
type Setting struct {
	Name, Value, Default, Description string
}

// Settings are what the nodes can be told; nil values are defaults.
type Settings interface {
	// List describes all settings with their values at this node.
	List() []Setting
	// Check says what is wrong with the values, taken together.
	Check(values map[string]string) error
	// Apply takes values over; those not named go back to their defaults.
	Apply(values map[string]string)
}

var (
	reSetSetting  = regexp.MustCompile(`(?is)^SET\s+CLUSTER\s+SETTING\s+([\w.]+)\s*(?:=|\s+TO\s+)\s*(.+)$`)
	reShowSetting = regexp.MustCompile(`(?is)^SHOW\s+CLUSTER\s+SETTING(?:S|\s+([\w.]+))$`)
	settingsSpan  = base.Span{Start: base.IndexPrefix(base.MetaShard, schema.TabSettings, 0, 0),
		End: base.IndexPrefix(base.MetaShard, schema.TabSettings, 0, 0).PrefixEnd()}
)

func settingKey(name string) base.Key {
	return base.AppendBytes(settingsSpan.Start.Clone(), []byte(name))
}

// clusterSetting parses the statements; nil if it is none of them.
func (p *parser) clusterSetting(q string) sqlparser.Statement {
	if m := reShowSetting.FindStringSubmatch(q); m != nil {
		name := strings.ToLower(m[1])
		return inject(processAuth, &ownNode{g: p.g, name: "SHOW CLUSTER SETTINGS",
			sch: textSchema("variable", "value", "default", "description"),
			run: func(*sql.Context) ([]sql.Row, error) { return p.g.showSettings(name) }})
	}
	if m := reSetSetting.FindStringSubmatch(q); m != nil {
		name, value := strings.ToLower(m[1]), strings.TrimSpace(m[2])
		var to *string
		if !strings.EqualFold(value, "DEFAULT") {
			value = unquote(value)
			to = &value
		}
		return inject(sqlparser.AuthInformation{AuthType: sqlparser.AuthType_SUPER, TargetType: sqlparser.AuthTargetType_Global},
			&ownNode{g: p.g, name: "SET CLUSTER SETTING", sch: types.OkResultSchema, writes: true,
				run: func(ctx *sql.Context) ([]sql.Row, error) {
					return []sql.Row{{types.NewOkResult(0)}}, p.g.setSetting(ctx, name, to)
				}})
	}
	return nil
}

func (g *gateway) settingNamed(name string) (Setting, error) {
	if g.settings != nil {
		for _, s := range g.settings.List() {
			if s.Name == name {
				return s, nil
			}
		}
	}
	return Setting{}, schema.Invalid("there is no cluster setting '" + name + "': SHOW CLUSTER SETTINGS lists them")
}

func (g *gateway) showSettings(name string) ([]sql.Row, error) {
	var list []Setting
	if name != "" {
		s, err := g.settingNamed(name)
		if err != nil {
			return nil, err
		}
		list = []Setting{s}
	} else if g.settings != nil {
		list = g.settings.List()
	}
	out := make([]sql.Row, len(list))
	for i, s := range list {
		out[i] = sql.Row{s.Name, s.Value, s.Default, s.Description}
	}
	return out, nil
}

// setSetting changes a setting; nil takes it back to its default.
func (g *gateway) setSetting(ctx context.Context, name string, value *string) error {
	if _, err := g.settingNamed(name); err != nil {
		return err
	}
	var next map[string]string
	_, err := kv.Run(ctx, g.DB, kv.Options{}, func(t kv.Txn) error {
		// All of them are locked, because they are checked together.
		rows, err := scanAllRows(ctx, t, settingsSpan, kv.LockExclusive)
		if err != nil {
			return err
		}
		if next, err = settingsOf(rows); err != nil {
			return err
		}
		if value == nil {
			delete(next, name)
			t.Delete(settingKey(name))
		} else {
			next[name] = *value
			t.Put(settingKey(name), []byte(*value), 0)
		}
		if err := g.settings.Check(maps.Clone(next)); err != nil {
			return base.Errorf(base.CodeInvalid, "%v", err)
		}
		return nil
	})
	if err != nil {
		return schema.ClientError(err)
	}
	select {
	case g.settingsTurn <- struct{}{}:
		g.settings.Apply(next)
		<-g.settingsTurn
	case <-ctx.Done(): // it is committed: follow takes it over
	}
	return nil
}

// SetClusterSetting is SET CLUSTER SETTING for the operator of the node.
func (s *Server) SetClusterSetting(ctx context.Context, name, value string) error {
	return s.g.setSetting(ctx, name, &value)
}

func scanAllRows(ctx context.Context, t kv.Txn, span base.Span, lock kv.LockMode) (out []kv.Row, err error) {
	req := &kv.ScanRequest{Spans: []base.Span{span}, Lock: lock}
	for req != nil {
		res, err := t.Scan(ctx, *req)
		if err != nil {
			return nil, err
		}
		out = append(out, res.Rows...)
		req = res.Next
	}
	return out, nil
}

func settingsOf(rows []kv.Row) (map[string]string, error) {
	out := map[string]string{}
	for _, r := range rows {
		name, _, err := base.TakeBytes(r.Key[len(settingsSpan.Start):])
		if err != nil {
			return nil, base.Errorf(base.CodeCorrupt, "cluster setting %v cannot be decoded: %v", r.Key, err)
		}
		out[string(name)] = string(r.Value)
	}
	return out, nil
}

// refreshSettings takes over what changed since the last call.
func (g *gateway) refreshSettings(ctx context.Context) error {
	select {
	case g.settingsTurn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-g.settingsTurn }()
	changed, _ := g.DB.MetaVersion(settingsSpan)
	if g.settings == nil || changed <= g.settingsTS {
		return nil
	}
	t := g.DB.Begin(kv.Options{ReadOnly: true})
	defer t.Rollback(ctx)
	rows, err := scanAllRows(ctx, t, settingsSpan, kv.LockNone)
	if err != nil {
		return err
	}
	values, err := settingsOf(rows)
	if err != nil {
		return err
	}
	// What a newer node knows and this one does not is no reason to ignore the rest.
	list := g.settings.List()
	maps.DeleteFunc(values, func(name, _ string) bool {
		return !slices.ContainsFunc(list, func(s Setting) bool { return s.Name == name })
	})
	if err := g.settings.Check(maps.Clone(values)); err != nil {
		g.Log.Error("cluster settings are not valid here and are ignored", "err", err)
	} else {
		g.settings.Apply(values)
	}
	if g.settingsTS = min(changed, t.ReadTimestamp()); g.settingsTS < changed {
		return errBehind
	}
	return nil
}

// errBehind: a change is visible, but came after the timestamp up to which this node is complete,
// so it was not read yet.
var errBehind = base.Errorf(base.CodeTooLate, "the meta replica is not complete yet")

// follow takes over what changes in the meta shard until ctx ends.
func (g *gateway) follow(ctx context.Context, what string, refresh func(context.Context) error) {
	for ctx.Err() == nil {
		changed := g.DB.MetaChanged()
		again := time.Minute
		if err := refresh(ctx); err == errBehind {
			again = 50 * time.Millisecond
		} else if err != nil && ctx.Err() == nil {
			g.Log.Warn("a change could not be read", "what", what, "err", err)
			again = time.Second // what kept it may be over, and nothing would tell
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(again):
		}
	}
}
