package describe

import (
	"strings"
	"testing"

	"github.com/dolthub/go-mysql-server/sql"

	"github.com/godwitdb/godwit/sql/schema"
)

func expr(text string, literal bool) *schema.ExprDesc {
	return &schema.ExprDesc{Text: text, Literal: literal, Parenthesized: !literal}
}

// world is a table with a column of each kind that is worded in a way of its own.
func world(t *testing.T) *schema.Table {
	t.Helper()
	ci, bin := sql.Collation_utf8mb4_0900_ai_ci, sql.Collation_utf8mb4_bin
	d := &schema.TableDesc{ID: 1, DB: "d", Name: "t`s", Collation: ci, Comment: "it's \\ here", PK: []uint32{1}, Cols: []schema.ColumnDesc{
		{ID: 1, Name: "id", Type: "int unsigned", AutoInc: true},
		{ID: 2, Name: "a", Type: "varchar(20)", Collation: ci, Comment: "a\n\"b\" \\'"},
		{ID: 3, Name: "n", Type: "int", Nullable: true, Default: expr("5", true)},
		{ID: 4, Name: "price", Type: "decimal(10,2)", Nullable: true, Default: expr("1.5", true)},
		{ID: 5, Name: "at", Type: "datetime(3)", Default: expr("NOW(3)", false), OnUpdate: expr("CURRENT_TIMESTAMP(3)", false)},
		{ID: 6, Name: "e", Type: "enum", Values: []string{"x", "y's"}, Collation: ci, Nullable: true, Default: expr("2", true)},
		{ID: 7, Name: "long", Type: "text", Collation: ci, Nullable: true},
		{ID: 8, Name: "ts", Type: "timestamp", Nullable: true},
		{ID: 9, Name: "b", Type: "char(3)", Collation: bin, Nullable: true},
		{ID: 10, Name: "bits", Type: "bit(4)", Nullable: true, Default: expr("b'101'", true)},
		{ID: 11, Name: "v", Type: "int", Nullable: true, Virtual: true, Generated: expr("((`n` + 1))", false)},
		{ID: 12, Name: "s", Type: "varchar(9)", Collation: ci, Generated: expr("(upper(`a`))", false)},
		{ID: 13, Name: "x", Type: "int", Nullable: true, Default: expr("(1 + 2)", false)},
		{ID: 14, Name: "tm", Type: "time(2)", Nullable: true, Default: expr("'10:00:00.005'", true)},
		{ID: 15, Name: "!hidden", Type: "int", Nullable: true, HiddenSystem: true, Virtual: true, Generated: expr("(`n` * 2)", false)},
		{ID: 16, Name: "d", Type: "date", Nullable: true, Default: expr("NULL", true)},
		{ID: 17, Name: "q", Type: "bigint", Nullable: true, Default: expr("-1", true)},
		{ID: 18, Name: "l1", Type: "varchar(3)", Collation: sql.Collation_latin1_swedish_ci, Nullable: true, Default: expr(`'it''s'`, true)},
	}, Indexes: []schema.IndexDesc{
		{ID: 1, Name: "plain", Cols: []schema.IndexedColumn{{Col: 3}, {Col: 2, Length: 5}}},
		{ID: 2, Name: "maybe", Cols: []schema.IndexedColumn{{Col: 4}}, Constraint: sql.IndexConstraint_Unique},
		{ID: 3, Name: "words", Cols: []schema.IndexedColumn{{Col: 7}}, Constraint: sql.IndexConstraint_Fulltext},
		{ID: 4, Name: "surely", Cols: []schema.IndexedColumn{{Col: 2}}, Constraint: sql.IndexConstraint_Unique, Comment: "c's"},
		{ID: 5, Name: "twice", Cols: []schema.IndexedColumn{{Col: 15}}},
		{ID: 6, Name: "coming", Cols: []schema.IndexedColumn{{Col: 4}}, State: schema.IndexWriteOnly},
	}, Checks: []sql.CheckDefinition{{Name: "c1", CheckExpression: "(`n` > 1)", Enforced: true}, {Name: "c2", CheckExpression: "(`n` < 9)"}}}
	tab, err := schema.NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

// TestCreate: the text is MySQL's, line by line.
func TestCreate(t *testing.T) {
	fks := []sql.ForeignKeyConstraint{
		{Name: "f1", Columns: []string{"n"}, ParentDatabase: "d", ParentTable: "p", ParentColumns: []string{"id"},
			OnDelete: sql.ForeignKeyReferentialAction_Cascade, OnUpdate: sql.ForeignKeyReferentialAction_NoAction},
		{Name: "f2", Columns: []string{"n", "x"}, ParentDatabase: "other", ParentTable: "p", ParentColumns: []string{"a", "b"},
			OnUpdate: sql.ForeignKeyReferentialAction_SetNull},
	}
	got := Create(sql.NewEmptyContext(), world(t), fks, 7)
	want := strings.Join([]string{
		"CREATE TABLE `t``s` (",
		"  `id` int unsigned NOT NULL AUTO_INCREMENT,",
		"  `a` varchar(20) NOT NULL COMMENT 'a\\n\"b\" \\\\''',",
		"  `n` int DEFAULT '5',",
		"  `price` decimal(10,2) DEFAULT '1.50',",
		"  `at` datetime(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),",
		"  `e` enum('x','y''s') DEFAULT 'y''s',",
		"  `long` text,",
		"  `ts` timestamp NULL DEFAULT NULL,",
		"  `b` char(3) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,",
		"  `bits` bit(4) DEFAULT b'101',",
		"  `v` int GENERATED ALWAYS AS ((`n` + 1)) VIRTUAL,",
		"  `s` varchar(9) GENERATED ALWAYS AS (upper(`a`)) STORED NOT NULL,",
		"  `x` int DEFAULT ((1 + 2)),",
		"  `tm` time(2) DEFAULT '10:00:00.01',",
		"  `d` date DEFAULT NULL,",
		"  `q` bigint DEFAULT '-1',",
		"  `l1` varchar(3) CHARACTER SET latin1 COLLATE latin1_swedish_ci DEFAULT 'it''s',",
		"  PRIMARY KEY (`id`),",
		"  UNIQUE KEY `surely` (`a`) COMMENT 'c''s',",
		"  UNIQUE KEY `maybe` (`price`),",
		"  KEY `plain` (`n`,`a`(5)),",
		"  KEY `twice` (((`n` * 2))),",
		"  FULLTEXT KEY `words` (`long`),",
		"  CONSTRAINT `f1` FOREIGN KEY (`n`) REFERENCES `p` (`id`) ON DELETE CASCADE,",
		"  CONSTRAINT `f2` FOREIGN KEY (`n`, `x`) REFERENCES `other`.`p` (`a`, `b`) ON UPDATE SET NULL,",
		"  CONSTRAINT `c1` CHECK ((`n` > 1)),",
		"  CONSTRAINT `c2` CHECK ((`n` < 9)) /*!80016 NOT ENFORCED */",
		") ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci COMMENT='it''s \\\\ here'",
	}, "\n")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// TestColumns: SHOW COLUMNS has types without collations, plain defaults, and MySQL's words in
// Extra.
func TestColumns(t *testing.T) {
	var got []string
	for _, c := range Columns(sql.NewEmptyContext(), world(t), false) {
		def := "NULL"
		if s, ok := c.Default.(string); ok {
			def = s
		}
		got = append(got, strings.Join([]string{c.Name, c.Type, c.Key, def, c.Extra, c.Generated}, "|"))
	}
	want := []string{
		"id|int unsigned|PRI|NULL|auto_increment|",
		"a|varchar(20)|UNI|NULL||",
		"n|int|MUL|5||",
		"price|decimal(10,2)|UNI|1.50||",
		"at|datetime(3)||CURRENT_TIMESTAMP(3)|DEFAULT_GENERATED on update CURRENT_TIMESTAMP(3)|",
		"e|enum('x','y''s')||y's||",
		"long|text|MUL|NULL||",
		"ts|timestamp||NULL||",
		"b|char(3)||NULL||",
		"bits|bit(4)||b'101'||",
		"v|int||NULL|VIRTUAL GENERATED|(`n` + 1)",
		"s|varchar(9)||NULL|STORED GENERATED|upper(`a`)",
		"x|int||(1 + 2)|DEFAULT_GENERATED|",
		"tm|time(2)||10:00:00.01||",
		"d|date||NULL||",
		"q|bigint||-1||",
		"l1|varchar(3)||it's||",
	}
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

// TestKeyWithoutPrimary: the first unique index of columns that cannot be NULL stands for the
// primary key.
func TestKeyWithoutPrimary(t *testing.T) {
	d := &schema.TableDesc{ID: 1, DB: "d", Name: "t", Cols: []schema.ColumnDesc{
		{ID: 1, Name: "a", Type: "int"}, {ID: 2, Name: "b", Type: "int"}, {ID: 3, Name: "c", Type: "int", Nullable: true},
	}, Indexes: []schema.IndexDesc{
		{ID: 1, Name: "c", Cols: []schema.IndexedColumn{{Col: 3}}, Constraint: sql.IndexConstraint_Unique},
		{ID: 2, Name: "ab", Cols: []schema.IndexedColumn{{Col: 1}, {Col: 2}}, Constraint: sql.IndexConstraint_Unique},
	}}
	tab, err := schema.NewTable(d)
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range []string{"PRI", "PRI", "UNI"} {
		if got := ColumnOf(sql.NewEmptyContext(), tab, at).Key; got != want {
			t.Errorf("column %d is %q instead of %q", at, got, want)
		}
	}
}
