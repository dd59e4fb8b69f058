package ddl

import (
	"context"
	"sync"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/base"
	"github.com/godwitdb/godwit/sql/ddl/sharding"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/table"
)

// Env is what all schema changes of one gateway share.
type Env struct {
	*table.Env
	// Nodes are the other nodes; nil: the gateway does not know its cluster.
	Nodes Nodes
	// Usual is the locality of tables that say nothing, for tests.
	Usual schema.Locality
	// System is the database of a name that is not stored; nil: there is none.
	System func(name string) sql.Database
	// Sees says whether the user may know of a table or view.
	Sees func(ctx *sql.Context, db, name string) bool
	// View refuses a new view; nil: none is refused.
	View func(ctx *sql.Context, db string, def *sql.ViewDefinition) error
	// Functions are those that need the gateway, by their names in lower case.
	Functions map[string]sql.Function
	// Stored finds stored functions; nil: there are none.
	Stored func(ctx *sql.Context, name string) (sql.Function, bool)
	GC     *Collector
	Jobs   *Jobs

	copies sync.Map // successors of tables that this node copies rows to, by id
	// building are the contexts of statements that fill indexes, by [indexOf].
	building sync.Map
}

// Nodes is what schema changes ask of the cluster.
type Nodes interface {
	// EnableAsync makes shards for asynchronous tables, once, and waits until they can be used.
	EnableAsync(ctx context.Context) error
	// CreatePlacement makes a placement and waits until it can be used,
	// DropPlacement takes one away, and PlacementNamed is one that can be used, by what the cluster
	// knows now.
	CreatePlacement(ctx context.Context, spec base.PlacementSpec) error
	DropPlacement(ctx context.Context, name string) error
	PlacementNamed(ctx context.Context, name string) (base.Placed, error)
	// OwnShards finds or makes shards for one table alone, so many in each of some placements, and
	// waits until they can be used. used says which have tables. It returns the shards before them.
	OwnShards(ctx context.Context, places []base.PlacementID, shards int, used func(before int) bool) (map[base.PlacementID]int, error)
	// Shards are what some shards hold and serve, their bytes of one table, or of all if it is 0.
	Shards(ctx context.Context, of base.TableID, shards []base.ShardID) []sharding.Use
	// DropRegion begins to drop a region, whose rows move into another one, the nearest if none is
	// named. It returns the name of that.
	DropRegion(ctx context.Context, name, into string) (string, error)
	// AwaitHeld waits until other regions hold all that asynchronous groups have committed until
	// now.
	AwaitHeld(ctx context.Context) error
	// Live reports whether a node has been heard of lately.
	Live(node base.NodeID) bool
}

// NewEnv is the environment of schema changes of the tables of env.
func NewEnv(env *table.Env, nodes Nodes) *Env {
	g := &Env{Env: env, Nodes: nodes, System: func(string) sql.Database { return nil },
		Sees: func(*sql.Context, string, string) bool { return true }}
	g.GC, g.Jobs = newCollector(g), &Jobs{g: g}
	return g
}
