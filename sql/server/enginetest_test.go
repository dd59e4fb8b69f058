package server

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"maps"
	"os"
	osexec "os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	sqle "github.com/dolthub/go-mysql-server"
	"github.com/dolthub/go-mysql-server/enginetest"
	"github.com/dolthub/go-mysql-server/enginetest/queries"
	"github.com/dolthub/go-mysql-server/enginetest/scriptgen/setup"
	"github.com/dolthub/go-mysql-server/server"
	"github.com/dolthub/go-mysql-server/sql"
	"github.com/dolthub/go-mysql-server/sql/information_schema"
	"github.com/dolthub/vitess/go/mysql"
	"github.com/dolthub/vitess/go/vt/sqlparser"

	"github.com/godwitdb/godwit/kv"
	"github.com/godwitdb/godwit/kv/memkv"
	"github.com/godwitdb/godwit/sql/expr"
	"github.com/godwitdb/godwit/sql/perfschema"
	"github.com/godwitdb/godwit/sql/schema"
	"github.com/godwitdb/godwit/sql/session"
)

// The integrator suite of go-mysql-server, against this package over memkv.
// TestIntegratorSuite runs TestGMS in a process of its own, counts the leaves, and
// compares the failures with testdata/enginetest_failures.txt: one line a
// test or prefix of tests (ending in *), a tab, and the reason. With -update it writes
// docs/enginetest.md.

var update = flag.Bool("update", false, "rewrite docs/enginetest.md")

const suiteEnv = "GODWIT_ENGINETEST"

// gmsHarness is one engine over one store, as the suite wants it.
type gmsHarness struct {
	t     *testing.T
	setup []setup.SetupScript
	g     *gateway
	sess  *session.Session
	newDB func() (kv.DB, func())
	close func()
	// epochs makes tables MULTI MASTER that do not say what they are.
	epochs bool
	// speculate runs triggers ahead of all rows that fire them.
	speculate bool
	// broken tests are those the engine itself is known to fail; its memory backend skips them too.
	broken bool
	// plain gives tests go-mysql-server's engine itself: they want its type, and are skipped else.
	plain bool
	// judge is another server, which is asked everything; nil: none.
	judge *referee
}

var (
	_ enginetest.Harness             = (*gmsHarness)(nil)
	_ enginetest.TransactionHarness  = (*gmsHarness)(nil)
	_ enginetest.IndexHarness        = (*gmsHarness)(nil)
	_ enginetest.ForeignKeyHarness   = (*gmsHarness)(nil)
	_ enginetest.KeylessTableHarness = (*gmsHarness)(nil)
	_ enginetest.ClientHarness       = (*gmsHarness)(nil)
	_ enginetest.ServerHarness       = (*gmsHarness)(nil)
	_ enginetest.SkippingHarness     = (*gmsHarness)(nil)
)

func newHarness(t *testing.T) *gmsHarness {
	return &gmsHarness{t: t, newDB: func() (kv.DB, func()) { return memkv.New(3, "eu", "us"), func() {} }}
}

func (h *gmsHarness) SupportsNativeIndexCreation() bool { return true }
func (h *gmsHarness) SupportsForeignKeys() bool         { return true }
func (h *gmsHarness) SupportsKeylessTables() bool       { return true }
func (h *gmsHarness) SkipQueryTest(string) bool         { return h.broken }

func (h *gmsHarness) gateway() *gateway {
	if h.g == nil {
		db, closeDB := h.newDB()
		h.close = closeDB
		h.g = newGateway(Config{DB: db, Logger: slog.New(slog.DiscardHandler)})
		// the suite has files
		if err := sql.SystemVariables.AssignValues(map[string]any{session.FilesVar: "",
			// The suite looks at the plugin of the accounts that it makes.
			"default_authentication_plugin": "mysql_native_password"}); err != nil {
			h.t.Fatal(err)
		}
		h.g.engine.Analyzer.Catalog.InfoSchema = information_schema.NewInformationSchemaDatabase()
		if t, _, err := h.g.engine.Analyzer.Catalog.InfoSchema.GetTableInsensitive(sql.NewEmptyContext(),
			information_schema.TablePrivilegesTableName); err != nil {
			h.t.Fatal(err)
		} else if x, ok := t.(*information_schema.InformationSchemaTable); ok {
			x.Reader = perfschema.Granted(x.Reader)
		}
		h.g.engine.Analyzer.Catalog.MySQLDb.AddRootAccount()
		h.g.Stats.Wait = true
		if h.epochs {
			h.g.Usual.Kind = schema.MultiMaster
		}
		h.g.prefetch.SpeculateAll = h.speculate
	}
	return h.g
}

func (h *gmsHarness) Setup(scripts ...[]setup.SetupScript) {
	h.setup = nil
	for _, s := range scripts {
		h.setup = append(h.setup, s...)
	}
}

func (h *gmsHarness) newSession() *session.Session {
	s := session.New(enginetest.NewBaseSession(), h.gateway().sessionEnv())
	s.InitVariables()
	ctx := sql.NewContext(context.Background(), sql.WithSession(s))
	// the suite wants texts to be compared as bytes, unless it says otherwise
	for _, name := range []string{"collation_connection", "collation_database", "collation_server"} {
		if err := s.SetSessionVariable(ctx, name, sql.Collation_Default.Name()); err != nil {
			h.t.Fatal(err)
		}
	}
	// Its clients share one thread: who waits for a lock of another one waits in vain.
	if err := s.SetSessionVariable(ctx, "innodb_lock_wait_timeout", 1); err != nil {
		h.t.Fatal(err)
	}
	if err := s.SetSessionVariable(ctx, sql.SqlModeSessionVar, sql.DefaultSqlMode); err != nil {
		h.t.Fatal(err) // the suite was written for that mode
	}
	return s
}

func (h *gmsHarness) NewContext() *sql.Context {
	if h.sess == nil {
		h.sess = h.newSession()
	}
	// What the handler does after a statement that failed.
	if t := h.sess.Txn(); t != nil && !h.sess.GetIgnoreAutoCommit() && h.sess.Autocommit() {
		t.Rollback()
		h.sess.SetTransaction(nil)
	}
	return sql.NewContext(context.Background(), sql.WithSession(h.sess))
}

func (h *gmsHarness) NewSession() *sql.Context {
	h.sess = h.newSession()
	return h.NewContext()
}

func (h *gmsHarness) NewContextWithClient(c sql.Client) *sql.Context {
	s := session.New(sql.NewBaseSessionWithClientServer("address", c, 1), h.gateway().sessionEnv())
	return sql.NewContext(context.Background(), sql.WithSession(s))
}

func (h *gmsHarness) SessionBuilder() server.SessionBuilder {
	return func(ctx context.Context, c *mysql.Conn, addr string) (sql.Session, error) {
		return h.gateway().buildSession(ctx, c, addr)
	}
}

func (h *gmsHarness) NewEngine(t *testing.T) (enginetest.QueryEngine, error) {
	if h.g != nil {
		h.g.engine.Close()
		h.close()
	}
	h.g, h.sess = nil, nil
	g := h.gateway()
	scripts := h.setup
	if len(scripts) == 0 {
		scripts = setup.MydbData
	}
	ctx := enginetest.NewContext(h)
	if _, err := enginetest.RunSetupScripts(ctx, g.engine, scripts, true); err != nil {
		return nil, err
	}
	h.sess = nil
	if h.plain {
		return g.engine, nil
	}
	h.judge.prepare(t, scripts)
	return &suiteEngine{g.engine, g, h.judge}, nil
}

var gmsTests = []struct {
	name string
	run  func(*testing.T, *gmsHarness)
}{
	{"Queries", func(t *testing.T, h *gmsHarness) { enginetest.TestQueries(t, h) }},
	{"QueriesPreparedSimple", func(t *testing.T, h *gmsHarness) { enginetest.TestQueriesPrepared(t, h) }},
	{"QueriesSimple", func(t *testing.T, h *gmsHarness) { enginetest.TestQueries(t, h) }},
	{"JoinQueries", func(t *testing.T, h *gmsHarness) { enginetest.TestJoinQueries(t, h) }},
	{"LateralJoin", func(t *testing.T, h *gmsHarness) { enginetest.TestLateralJoinQueries(t, h) }},
	{"JoinPlanning", func(t *testing.T, h *gmsHarness) { enginetest.TestJoinPlanning(t, h) }},
	{"JoinStats", func(t *testing.T, h *gmsHarness) { enginetest.TestJoinStats(t, h) }},
	{"JSONTableQueries", func(t *testing.T, h *gmsHarness) { enginetest.TestJSONTableQueries(t, h) }},
	{"JSONTableScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestJSONTableScripts(t, h) }},
	{"BrokenJSONTableScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestBrokenJSONTableScripts(t, h) }},
	{"BrokenQueries", func(t *testing.T, h *gmsHarness) { enginetest.TestBrokenQueries(t, h) }},
	{"AnsiQuotesSqlMode", func(t *testing.T, h *gmsHarness) { enginetest.TestAnsiQuotesSqlMode(t, h) }},
	{"AnsiQuotesSqlModePrepared", func(t *testing.T, h *gmsHarness) { enginetest.TestAnsiQuotesSqlModePrepared(t, h) }},
	{"QueryPlanScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestQueryPlanScripts(t, h) }},
	{"IntegrationQueryPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestIntegrationPlans(t, h) }},
	{"ImdbQueryPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestImdbPlans(t, h) }},
	{"TpccQueryPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestTpccPlans(t, h) }},
	{"TpchQueryPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestTpchPlans(t, h) }},
	{"IndexQueryPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestIndexQueryPlans(t, h) }},
	{"QueryErrors", func(t *testing.T, h *gmsHarness) { enginetest.TestQueryErrors(t, h) }},
	{"InfoSchema", func(t *testing.T, h *gmsHarness) { enginetest.TestInfoSchema(t, h) }},
	{"MySqlDb", func(t *testing.T, h *gmsHarness) { enginetest.TestMySqlDb(t, h) }},
	{"ColumnAliases", func(t *testing.T, h *gmsHarness) { enginetest.TestColumnAliases(t, h) }},
	{"DerivedTableOuterScopeVisibility", func(t *testing.T, h *gmsHarness) {
		enginetest.TestDerivedTableOuterScopeVisibility(t, h)
	}},
	{"OrderByGroupBy", func(t *testing.T, h *gmsHarness) { enginetest.TestOrderByGroupBy(t, h) }},
	{"AmbiguousColumnResolution", func(t *testing.T, h *gmsHarness) { enginetest.TestAmbiguousColumnResolution(t, h) }},
	{"InsertInto", func(t *testing.T, h *gmsHarness) { enginetest.TestInsertInto(t, h) }},
	{"InsertIgnoreInto", func(t *testing.T, h *gmsHarness) { enginetest.TestInsertIgnoreInto(t, h) }},
	{"InsertDuplicateKeyKeyless", func(t *testing.T, h *gmsHarness) { enginetest.TestInsertDuplicateKeyKeyless(t, h) }},
	{"IgnoreIntoWithDuplicateUniqueKeyKeyless", func(t *testing.T, h *gmsHarness) {
		enginetest.TestIgnoreIntoWithDuplicateUniqueKeyKeyless(t, h)
	}},
	{"InsertIntoErrors", func(t *testing.T, h *gmsHarness) { enginetest.TestInsertIntoErrors(t, h) }},
	{"BrokenInsertScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestBrokenInsertScripts(t, h) }},
	{"GeneratedColumns", func(t *testing.T, h *gmsHarness) { enginetest.TestGeneratedColumns(t, h) }},
	{"GeneratedColumnPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestGeneratedColumnPlans(t, h) }},
	{"SysbenchPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestSysbenchPlans(t, h) }},
	{"Statistics", func(t *testing.T, h *gmsHarness) { enginetest.TestStatistics(t, h) }},
	{"StatisticIndexFilters", func(t *testing.T, h *gmsHarness) { enginetest.TestStatisticIndexFilters(t, h) }},
	{"SpatialInsertInto", func(t *testing.T, h *gmsHarness) { enginetest.TestSpatialInsertInto(t, h) }},
	{"LoadData", func(t *testing.T, h *gmsHarness) { enginetest.TestLoadData(t, h) }},
	{"LoadDataErrors", func(t *testing.T, h *gmsHarness) { enginetest.TestLoadDataErrors(t, h) }},
	{"LoadDataFailing", func(t *testing.T, h *gmsHarness) { enginetest.TestLoadDataFailing(t, h) }},
	{"SelectIntoFile", func(t *testing.T, h *gmsHarness) { enginetest.TestSelectIntoFile(t, h) }},
	{"ReplaceInto", func(t *testing.T, h *gmsHarness) { enginetest.TestReplaceInto(t, h) }},
	{"ReplaceIntoErrors", func(t *testing.T, h *gmsHarness) { enginetest.TestReplaceIntoErrors(t, h) }},
	{"Update", func(t *testing.T, h *gmsHarness) { enginetest.TestUpdate(t, h) }},
	{"UpdateIgnore", func(t *testing.T, h *gmsHarness) { enginetest.TestUpdateIgnore(t, h) }},
	{"UpdateErrors", func(t *testing.T, h *gmsHarness) { enginetest.TestUpdateErrors(t, h) }},
	{"OnUpdateExprScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestOnUpdateExprScripts(t, h) }},
	{"SpatialUpdate", func(t *testing.T, h *gmsHarness) { enginetest.TestSpatialUpdate(t, h) }},
	{"DeleteFromErrors", func(t *testing.T, h *gmsHarness) { enginetest.TestDeleteErrors(t, h) }},
	{"SpatialDeleteFrom", func(t *testing.T, h *gmsHarness) { enginetest.TestSpatialDelete(t, h) }},
	{"Truncate", func(t *testing.T, h *gmsHarness) { enginetest.TestTruncate(t, h) }},
	{"DeleteFrom", func(t *testing.T, h *gmsHarness) { enginetest.TestDelete(t, h) }},
	{"Convert", func(t *testing.T, h *gmsHarness) { enginetest.TestConvert(t, h) }},
	{"Scripts", func(t *testing.T, h *gmsHarness) { enginetest.TestScripts(t, h) }},
	{"SpatialScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestSpatialScripts(t, h) }},
	{"LargeGeometryScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestLargeGeometryScripts(t, h) }},
	{"SpatialIndexScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestSpatialIndexScripts(t, h) }},
	{"SpatialIndexPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestSpatialIndexPlans(t, h) }},
	{"NumericErrorScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestNumericErrorScripts(t, h) }},
	{"UserPrivileges", func(t *testing.T, h *gmsHarness) { enginetest.TestUserPrivileges(t, h) }},
	{"UserAuthentication", func(t *testing.T, h *gmsHarness) { enginetest.TestUserAuthentication(t, h) }},
	{"PrivilegePersistence", func(t *testing.T, h *gmsHarness) { enginetest.TestPrivilegePersistence(t, h) }},
	{"ComplexIndexQueries", func(t *testing.T, h *gmsHarness) { enginetest.TestComplexIndexQueries(t, h) }},
	{"Triggers", func(t *testing.T, h *gmsHarness) { enginetest.TestTriggers(t, h) }},
	{"ShowTriggers", func(t *testing.T, h *gmsHarness) { enginetest.TestShowTriggers(t, h) }},
	{"StoredProcedures", func(t *testing.T, h *gmsHarness) { enginetest.TestStoredProcedures(t, h) }},
	{"Events", func(t *testing.T, h *gmsHarness) { enginetest.TestEvents(t, h) }},
	{"TriggersErrors", func(t *testing.T, h *gmsHarness) { enginetest.TestTriggerErrors(t, h) }},
	{"CreateTable", func(t *testing.T, h *gmsHarness) { enginetest.TestCreateTable(t, h) }},
	{"RowLimit", func(t *testing.T, h *gmsHarness) { enginetest.TestRowLimit(t, h) }},
	{"DropTable", func(t *testing.T, h *gmsHarness) { enginetest.TestDropTable(t, h) }},
	{"RenameTable", func(t *testing.T, h *gmsHarness) { enginetest.TestRenameTable(t, h) }},
	{"RenameColumn", func(t *testing.T, h *gmsHarness) { enginetest.TestRenameColumn(t, h) }},
	{"AddColumn", func(t *testing.T, h *gmsHarness) { enginetest.TestAddColumn(t, h) }},
	{"ModifyColumn", func(t *testing.T, h *gmsHarness) { enginetest.TestModifyColumn(t, h) }},
	{"DropColumn", func(t *testing.T, h *gmsHarness) { enginetest.TestDropColumn(t, h) }},
	{"DropColumnKeylessTables", func(t *testing.T, h *gmsHarness) { enginetest.TestDropColumnKeylessTables(t, h) }},
	{"CreateDatabase", func(t *testing.T, h *gmsHarness) { enginetest.TestCreateDatabase(t, h) }},
	{"PkOrdinalsDDL", func(t *testing.T, h *gmsHarness) { enginetest.TestPkOrdinalsDDL(t, h) }},
	{"PkOrdinalsDML", func(t *testing.T, h *gmsHarness) { enginetest.TestPkOrdinalsDML(t, h) }},
	{"DropDatabase", func(t *testing.T, h *gmsHarness) { enginetest.TestDropDatabase(t, h) }},
	{"ConcurrentCreateDatabaseIfNotExists", func(t *testing.T, h *gmsHarness) {
		enginetest.TestConcurrentCreateDatabaseIfNotExists(t, h)
	}},
	{"ConcurrentDropDatabaseIfExists", func(t *testing.T, h *gmsHarness) { enginetest.TestConcurrentDropDatabaseIfExists(t, h) }},
	{"CreateForeignKeys", func(t *testing.T, h *gmsHarness) { enginetest.TestCreateForeignKeys(t, h) }},
	{"DropForeignKeys", func(t *testing.T, h *gmsHarness) { enginetest.TestDropForeignKeys(t, h) }},
	{"ForeignKeys", func(t *testing.T, h *gmsHarness) { enginetest.TestForeignKeys(t, h) }},
	{"FulltextIndexes", func(t *testing.T, h *gmsHarness) { enginetest.TestFulltextIndexes(t, h) }},
	{"CreateCheckConstraints", func(t *testing.T, h *gmsHarness) { enginetest.TestCreateCheckConstraints(t, h) }},
	{"ChecksOnInsert", func(t *testing.T, h *gmsHarness) { enginetest.TestChecksOnInsert(t, h) }},
	{"ChecksOnUpdate", func(t *testing.T, h *gmsHarness) { enginetest.TestChecksOnUpdate(t, h) }},
	{"DisallowedCheckConstraints", func(t *testing.T, h *gmsHarness) { enginetest.TestDisallowedCheckConstraints(t, h) }},
	{"DropCheckConstraints", func(t *testing.T, h *gmsHarness) { enginetest.TestDropCheckConstraints(t, h) }},
	{"Views", func(t *testing.T, h *gmsHarness) { enginetest.TestViews(t, h) }},
	{"NaturalJoin", func(t *testing.T, h *gmsHarness) { enginetest.TestNaturalJoin(t, h) }},
	{"WindowFunctions", func(t *testing.T, h *gmsHarness) { enginetest.TestWindowFunctions(t, h) }},
	{"WindowRangeFrames", func(t *testing.T, h *gmsHarness) { enginetest.TestWindowRangeFrames(t, h) }},
	{"NamedWindows", func(t *testing.T, h *gmsHarness) { enginetest.TestNamedWindows(t, h) }},
	{"NaturalJoinEqual", func(t *testing.T, h *gmsHarness) { enginetest.TestNaturalJoinEqual(t, h) }},
	{"NaturalJoinDisjoint", func(t *testing.T, h *gmsHarness) { enginetest.TestNaturalJoinDisjoint(t, h) }},
	{"InnerNestedInNaturalJoins", func(t *testing.T, h *gmsHarness) { enginetest.TestInnerNestedInNaturalJoins(t, h) }},
	{"ColumnDefaults", func(t *testing.T, h *gmsHarness) { enginetest.TestColumnDefaults(t, h) }},
	{"AlterTable", func(t *testing.T, h *gmsHarness) { enginetest.TestAlterTable(t, h) }},
	{"DateParse", func(t *testing.T, h *gmsHarness) { enginetest.TestDateParse(t, h) }},
	{"ShowTableStatus", func(t *testing.T, h *gmsHarness) { enginetest.TestShowTableStatus(t, h) }},
	{"AddDropPks", func(t *testing.T, h *gmsHarness) { enginetest.TestAddDropPks(t, h) }},
	{"NullRanges", func(t *testing.T, h *gmsHarness) { enginetest.TestNullRanges(t, h) }},
	{"Blobs", func(t *testing.T, h *gmsHarness) { enginetest.TestBlobs(t, h) }},
	{"Indexes", func(t *testing.T, h *gmsHarness) { enginetest.TestIndexes(t, h) }},
	{"IndexedExpressions", func(t *testing.T, h *gmsHarness) { enginetest.TestIndexedExpressions(t, h) }},
	{"VectorIndexes", func(t *testing.T, h *gmsHarness) { enginetest.TestVectorIndexes(t, h) }},
	{"VectorFunctions", func(t *testing.T, h *gmsHarness) { enginetest.TestVectorFunctions(t, h) }},
	{"VectorType", func(t *testing.T, h *gmsHarness) { enginetest.TestVectorType(t, h) }},
	{"IndexPrefix", func(t *testing.T, h *gmsHarness) { enginetest.TestIndexPrefix(t, h) }},
	{"Prepared", func(t *testing.T, h *gmsHarness) { enginetest.TestPrepared(t, h) }},
	{"PreparedInsert", func(t *testing.T, h *gmsHarness) { enginetest.TestPreparedInsert(t, h) }},
	{"PreparedStatements", func(t *testing.T, h *gmsHarness) { enginetest.TestPreparedStatements(t, h) }},
	{"CharsetCollationEngine", func(t *testing.T, h *gmsHarness) { enginetest.TestCharsetCollationEngine(t, h) }},
	{"Transactions", func(t *testing.T, h *gmsHarness) { enginetest.TestTransactionScripts(t, h) }},
	{"SQLLogicTests", func(t *testing.T, h *gmsHarness) { enginetest.TestSQLLogicTests(t, h) }},
	{"TimeQueries", func(t *testing.T, h *gmsHarness) { enginetest.TestTimeQueries(t, h) }},
	{"AddAutoIncrementColumn", func(t *testing.T, h *gmsHarness) {
		for _, s := range queries.AlterTableAddAutoIncrementScripts {
			enginetest.TestScript(t, h, s)
		}
	}},
	{"ReadOnly", func(t *testing.T, h *gmsHarness) { enginetest.TestReadOnly(t, h, true) }},
	{"JsonScripts", func(t *testing.T, h *gmsHarness) { enginetest.TestJsonScripts(t, h, nil) }},
	{"TypesOverWire", func(t *testing.T, h *gmsHarness) { enginetest.TestTypesOverWire(t, h, h.SessionBuilder()) }},
	{"QueryPlans", func(t *testing.T, h *gmsHarness) { enginetest.TestQueryPlans(t, h, queries.PlanTests) }},
	{"JoinOps", func(t *testing.T, h *gmsHarness) { enginetest.TestJoinOps(t, h, enginetest.DefaultJoinOpTests) }},
}

// TestGMS is the suite itself; it runs only in the process made for it.
func TestGMS(t *testing.T) {
	if os.Getenv(suiteEnv) == "" {
		t.Skip("run by TestIntegratorSuite")
	}
	for _, tt := range gmsTests {
		t.Run(tt.name, func(t *testing.T) {
			h := newHarness(t)
			h.judge = newReferee(t)
			switch os.Getenv(suiteEnv) {
			case "epochs":
				h.epochs, h.newDB = true, func() (kv.DB, func()) { return epochDB(t) }
			case "speculative":
				h.speculate = true
			}
			h.plain = slices.Contains([]string{"ReadOnly", "UserAuthentication", "TypesOverWire"}, tt.name)
			h.broken = strings.HasPrefix(tt.name, "Broken")
			tt.run(t, h)
		})
	}
}

var resultLine = regexp.MustCompile(`^\s*--- (PASS|FAIL|SKIP): (TestGMS/\S+)`)

func TestIntegratorSuite(t *testing.T) {
	if os.Getenv(suiteEnv) != "" {
		t.Skip("this process is the one it has made, and runs TestGMS")
	}
	if testing.Short() {
		t.Skip("-short: it takes a minute")
	}
	judgeSuite(t, runSuite(t, "rows", func(string) bool { return true }), ordinaryFailures, "enginetest.md",
		"go-mysql-server's integrator suite")
}

// ordinaryFailures are those on ordinary tables. They fail on others, too.
const ordinaryFailures = "testdata/enginetest_failures.txt"

// judgeSuite compares the verdicts with the list of failures that have a reason; with -update it
// writes them into a document, if that has a name.
func judgeSuite(t *testing.T, res map[string]string, list, doc, title string) {
	parent := map[string]bool{}
	for name := range res {
		for i := strings.LastIndexByte(name, '/'); i > 0; i = strings.LastIndexByte(name[:i], '/') {
			parent[name[:i]] = true
		}
	}
	known := readReasons(t, list)
	if list != ordinaryFailures {
		known = append(known, readReasons(t, ordinaryFailures)...)
	}
	count := map[string]int{}
	var unknown []string
	failed := map[string][]string{} // by reason
	used := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(res)) {
		if parent[name] {
			continue
		}
		count[res[name]]++
		if res[name] != "FAIL" {
			continue
		}
		why := ""
		for _, k := range known {
			if k.match(name) {
				why, used[k.pattern] = k.reason, true
				break
			}
		}
		if why == "" {
			unknown = append(unknown, name)
			why = "not examined"
		}
		failed[why] = append(failed[why], name)
	}
	text := suiteReport(title, t.Name(), count, failed)
	t.Log(strings.Split(text, "\n\n")[1])
	if *update && doc != "" {
		if err := os.WriteFile(filepath.Join("..", "..", "docs", doc), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, k := range known {
		if !used[k.pattern] {
			t.Logf("listed as failing but passes: %s", k.pattern)
		}
	}
	for _, n := range unknown {
		t.Errorf("fails without a listed reason: %s", n)
	}
}

// suiteReport is the document of a run: what passes, and each failure by its reason.
func suiteReport(title, test string, count map[string]int, failed map[string][]string) string {
	share := func(pass, fail int) float64 { return 100 * float64(pass) / float64(pass+fail) }
	apart, plans := 0, 0
	for why, names := range failed {
		switch {
		case strings.HasPrefix(why, notMySQL):
			apart += len(names)
		case strings.HasPrefix(why, "the plan ") || strings.Contains(why, "so the plan "):
			plans += len(names)
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n", title)
	fmt.Fprintf(&b, "%d subtests pass, %d fail, %d are skipped: %.2f %% of those that ran pass.\n", count["PASS"],
		count["FAIL"], count["SKIP"], share(count["PASS"], count["FAIL"]))
	fmt.Fprintf(&b, "%d of the failures want what MySQL does not answer. Without these %.2f %% pass.\n", apart,
		share(count["PASS"], count["FAIL"]-apart))
	fmt.Fprintf(&b, "%d more compare the texts of go-mysql-server's own plans. Of those that compare answers %.2f %% pass.\n", plans,
		share(count["PASS"], count["FAIL"]-apart-plans))
	fmt.Fprintf(&b, "Regenerate with `go test -tags gms_pure_go ./sql/server -run %s -update`.\n", test)
	for _, why := range slices.Sorted(maps.Keys(failed)) {
		fmt.Fprintf(&b, "\n| %s (%d) |\n|---|\n", why, len(failed[why]))
		for _, name := range failed[why] {
			fmt.Fprintf(&b, "| `%s` |\n", strings.ReplaceAll(name, "|", "\\|"))
		}
	}
	return b.String()
}

// notMySQL begins the reasons of tests that want what MySQL does not answer.
const notMySQL = "MySQL: "

// runSuite runs every group of the suite in a process of its own, because a panic in
// one ends it, and returns the verdict of each subtest.
func runSuite(t *testing.T, tables string, want func(group string) bool) map[string]string {
	res := map[string]string{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	// The suite reads files below ./testdata. (The file name in the program would say where that
	// is, but not if it was built with -trimpath.)
	src, err := osexec.Command("go", "list", "-tags", "gms_pure_go", "-f", "{{.Dir}}",
		"github.com/dolthub/go-mysql-server/enginetest").Output()
	if err != nil {
		t.Fatalf("where are the files of the suite: go list: %v", err)
	}
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(strings.TrimSpace(string(src)), "testdata"), filepath.Join(dir, "testdata")); err != nil {
		t.Fatal(err)
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	slots := make(chan string, runtime.NumCPU())
	judges := strings.Fields(os.Getenv(refereeEnv))
	if len(judges) == 0 {
		judges = make([]string, cap(slots))
	}
	for _, dsn := range judges[:min(len(judges), cap(slots))] {
		slots <- dsn
	}
	for _, tt := range gmsTests {
		if !want(tt.name) {
			continue
		}
		wg.Go(func() {
			dsn := <-slots
			defer func() { slots <- dsn }()
			cmd := osexec.Command(self, "-test.run=^TestGMS$/^"+tt.name+"$", "-test.v", "-test.timeout=20m")
			cmd.Env = append(os.Environ(), suiteEnv+"="+tables, refereeEnv+"="+dsn)
			cmd.Dir = dir
			out, _ := cmd.CombinedOutput()
			mu.Lock()
			defer mu.Unlock()
			sc := bufio.NewScanner(bytes.NewReader(out))
			sc.Buffer(nil, 1<<26)
			n := 0
			for sc.Scan() {
				if m := resultLine.FindStringSubmatch(sc.Text()); m != nil {
					res[strings.TrimPrefix(m[2], "TestGMS/")] = m[1]
					n++
				}
			}
			if n == 0 || bytes.Contains(out, []byte("\npanic: ")) {
				res[tt.name+"/(did not finish)"] = "FAIL"
			}
			if logs := os.Getenv("GODWIT_ENGINETEST_LOGS"); logs != "" {
				_ = os.WriteFile(filepath.Join(logs, tt.name+".log"), out, 0o644)
			}
		})
	}
	wg.Wait()
	return res
}

type reason struct{ pattern, reason string }

func (r reason) match(name string) bool {
	if p, ok := strings.CutSuffix(r.pattern, "*"); ok {
		return strings.HasPrefix(name, p)
	}
	return r.pattern == name
}

func readReasons(t *testing.T, list string) (out []reason) {
	b, err := os.ReadFile(list)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range strings.Split(string(b), "\n") {
		if l == "" || strings.HasPrefix(l, "#") {
			continue
		}
		p, why, ok := strings.Cut(l, "\t")
		if !ok {
			t.Fatalf("%s: no reason in %q", list, l)
		}
		out = append(out, reason{p, why})
	}
	return out
}

// suiteEngine is the engine as the suite uses it: SELECTs go through package query, as those of
// clients do.
type suiteEngine struct {
	*sqle.Engine
	g     *gateway
	judge *referee
}

// Query implements enginetest.QueryEngine.
func (e *suiteEngine) Query(ctx *sql.Context, q string) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	return e.QueryWithBindings(ctx, q, nil, nil, nil)
}

// QueryWithBindings implements enginetest.QueryEngine. It repeats a statement as a server does for
// its clients: while it is a transaction of its own and loses conflicts.
func (e *suiteEngine) QueryWithBindings(ctx *sql.Context, q string, parsed sqlparser.Statement,
	binds map[string]sqlparser.Expr, flags *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	for {
		sch, iter, out, err := e.once(ctx, q, parsed, binds, flags)
		s := session.Of(ctx)
		var lost *mysql.SQLError
		if !errors.As(err, &lost) || lost.Num != schema.ErrLockDeadlock || s == nil || s.Explicit(ctx) {
			return sch, iter, out, err
		}
		if t := s.Txn(); t != nil {
			t.Rollback()
			s.SetTransaction(nil)
		}
	}
}

func (e *suiteEngine) once(ctx *sql.Context, q string, parsed sqlparser.Statement, binds map[string]sqlparser.Expr,
	flags *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	s := session.Of(ctx)
	params, ok := suiteParams(binds, ctx.GetCollation())
	if parsed == nil && s != nil && ok {
		sch, rows, done, err := e.g.query.Rows(ctx, s, q, params)
		if done || err != nil {
			e.judge.compare(ctx, q, sch, rows, true, err)
		}
		if err != nil {
			if t := s.Txn(); t != nil && !s.Explicit(ctx) {
				t.Rollback()
				s.SetTransaction(nil)
			}
			return nil, nil, nil, err
		}
		if done {
			return sch, sql.RowsToRowIter(rows...), nil, nil
		}
	}
	return e.below(ctx, q, parsed, binds, flags)
}

// below leaves a statement to the engine.
func (e *suiteEngine) below(ctx *sql.Context, q string, parsed sqlparser.Statement, binds map[string]sqlparser.Expr,
	flags *sql.QueryFlags) (sql.Schema, sql.RowIter, *sql.QueryFlags, error) {
	sch, iter, flags, err := e.Engine.QueryWithBindings(ctx, q, parsed, binds, flags)
	if e.judge == nil || parsed != nil || len(binds) > 0 {
		return sch, iter, flags, err
	}
	var rows []sql.Row
	if err == nil {
		rows, err = sql.RowIterToRows(ctx, iter)
	}
	e.judge.compare(ctx, q, sch, rows, false, err)
	return sch, sql.RowsToRowIter(rows...), flags, err
}

// suiteParams are the values of parameters as constants.
func suiteParams(binds map[string]sqlparser.Expr, coll sql.CollationID) (out []expr.Node, ok bool) {
	for i := range len(binds) {
		v, ok := binds[fmt.Sprint("v", i+1)].(*sqlparser.SQLVal)
		if !ok {
			return nil, false
		}
		switch v.Type {
		case sqlparser.IntVal, sqlparser.FloatVal:
			n, err := expr.NumberConst(string(v.Val))
			if err != nil {
				return nil, false
			}
			out = append(out, n)
		case sqlparser.StrVal:
			out = append(out, expr.TextConst(string(v.Val), coll))
		default:
			return nil, false
		}
	}
	return out, true
}
