package session

import (
	"context"
	"strings"

	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/vitess/go/mysql"
)

// switchesVar is MySQL's variable of what its optimizer may do. Clients set it and put it back; no
// planner here looks at it.
const switchesVar = "optimizer_switch"

// switchDefaults are those of MySQL 8.0.
const switchDefaults = "index_merge=on,index_merge_union=on,index_merge_sort_union=on,index_merge_intersection=on," +
	"engine_condition_pushdown=on,index_condition_pushdown=on,mrr=on,mrr_cost_based=on,block_nested_loop=on,batched_key_access=off," +
	"materialization=on,semijoin=on,loosescan=on,firstmatch=on,duplicateweedout=on,subquery_materialization_cost_based=on," +
	"use_index_extensions=on,condition_fanout_filter=on,derived_merge=on,use_invisible_indexes=off,skip_scan=on,hash_join=on," +
	"subquery_to_derived=off,prefer_ordering_index=on,hypergraph_optimizer=off,derived_condition_pushdown=on"

// switches is the type of the variable. What a SET does not name gets its default, where MySQL
// keeps the value that it has.
type switches struct{ sql.SystemVariableType }

// Convert implements sql.Type.
func (t switches) Convert(_ context.Context, v any) (any, sql.ConvertInRange, error) {
	text, ok := v.(string)
	if !ok {
		return nil, sql.InRange, wrongSwitch(v)
	}
	all := strings.Split(switchDefaults, ",")
	for _, one := range strings.Split(text, ",") {
		name, to, _ := strings.Cut(strings.ToLower(strings.TrimSpace(one)), "=")
		if name == "" || name == "default" && to == "" {
			continue
		}
		at := -1
		for i, s := range all {
			if strings.HasPrefix(s, name+"=") {
				at = i
			}
		}
		switch {
		case at < 0 || to != "on" && to != "off" && to != "default":
			return nil, sql.InRange, wrongSwitch(text)
		case to != "default":
			all[at] = name + "=" + to
		}
	}
	return strings.Join(all, ","), sql.InRange, nil
}

func wrongSwitch(v any) error {
	return mysql.NewSQLError(1231, "42000", "Variable '%s' can't be set to the value of '%v'", switchesVar, v)
}
