package sqldiff

import (
	"context"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Difference is one between the answers of both servers.
type Difference struct {
	Class, Detail string
	SQL           string
	Got, Want     *Result
	St            *Statement   // whose answers differ; nil: the rows of a table do
	Sts           []*Statement // of a change: all of them
}

// compare says how the answers differ. It reports true if they do not.
func (d *Difference) compare() bool {
	d.Class, d.Detail = Compare(d.St, d.SQL, d.Got, d.Want)
	return d.Class == Same
}

// same reports whether the answers to other words do not differ. The reference has to have one: it
// must not refuse the words, nor take too long for them.
func (d *Difference) same() bool { return !d.Want.unjudged() && d.compare() }

// rule is what MariaDB is known to answer otherwise than MySQL's manual says, or what both leave to
// the plan. It is narrow: most rules write the statement in the way that the manual calls the same,
// or run it so that the plan does not matter, and hold only if both servers agree then.
type rule struct {
	Name   string
	Manual string // what decides
	holds  func(ctx context.Context, w *worker, d *Difference) bool
}

// explains is the name of the rule that explains a difference; "" if there is none.
func (w *worker) explains(ctx context.Context, d *Difference) string {
	for _, r := range rules {
		if r.holds(ctx, w, d) {
			return r.Name
		}
	}
	return ""
}

// explained looks for a rule that explains a difference, and counts it.
func (w *worker) explained(ctx context.Context, d *Difference) bool {
	name := w.explains(ctx, d)
	if name != "" {
		w.report.Explained[name]++
	}
	return name != ""
}

// agree runs the statements of a difference anew in other ways, and reports whether the answers are
// the same.
func (w *worker) agree(ctx context.Context, d *Difference, here, ref way) bool {
	if sts := d.Sts; sts != nil {
		if d.St != nil { // what comes after it is not judged
			sts = sts[:slices.Index(sts, d.St)+1]
		}
		if w.reset(ctx, changed(d.Sts)) != nil {
			return false
		}
		out := w.changes(ctx, sts, here, ref)
		return out.d == nil && out.unjudged == 0
	}
	e := Difference{St: d.St, SQL: d.SQL}
	_ = w.each(func(side *Side) error {
		if side == w.here {
			e.Got = side.as(ctx, []string{d.St.Root.Text(here.forms)}, here)[0]
		} else {
			e.Want = side.as(ctx, []string{d.St.Root.Text(ref.forms)}, ref)[0]
		}
		return nil
	})
	// The type of a column may differ besides, for a reason of its own.
	return e.same() || e.Class == TypeClass && d.Class != TypeClass && w.explains(ctx, &e) != ""
}

// has reports whether one of the forms is in the statements of a difference.
func (d *Difference) has(forms map[string]string) bool {
	return slices.ContainsFunc(d.statements(), func(st *Statement) bool {
		in := func(n *Node) bool {
			_, leaf := n.leafAs(forms)
			_, form := n.other(forms)
			return leaf || form && len(n.Kids) > 0
		}
		return in(st.Root) || st.Root.below(in)
	})
}

func (d *Difference) statements() []*Statement {
	if d.Sts != nil {
		return d.Sts
	}
	return []*Statement{d.St}
}

// rewritten is a rule by which a statement is the same as another one: forms of the generator
// become others at the reference, with $1, $2 and so on for what stands in them: in all statements
// of a transaction, or in the one that differs, since the form may be another error in one that
// did not.
func rewritten(forms map[string]string) func(context.Context, *worker, *Difference) bool {
	maps.Copy(allForms, forms)
	return func(ctx context.Context, w *worker, d *Difference) bool {
		return d.has(forms) && (w.agree(ctx, d, way{}, way{forms: forms}) ||
			len(d.Sts) > 1 && w.agree(ctx, d, way{}, way{forms: forms, late: true}))
	}
}

// allForms are those of all rules.
var allForms = map[string]string{}

// several is a rule by which several others hold at once.
func several(ctx context.Context, w *worker, d *Difference) bool {
	if !d.has(allForms) {
		return false
	}
	if d.Sts != nil || d.Class == TypeClass || d.Class == Digits {
		return w.agree(ctx, d, way{}, way{forms: allForms})
	}
	// Some forms have other types: those were not what differed.
	e := Difference{St: d.St, SQL: d.SQL, Got: w.here.Run(ctx, d.St.Root.String()), Want: w.ref.Run(ctx, d.St.Root.Text(allForms))}
	return e.same() || e.Class == TypeClass || e.Class == Digits
}

// errs reports whether one of the answers is an error of these numbers, and the other one is one of
// them or none.
func (d *Difference) errs(of ...int) bool {
	in := func(r *Result) bool { return r.Errno == 0 || slices.Contains(of, r.Errno) }
	return (d.Class == ErrorHere || d.Class == ErrorGone || d.Class == ErrorNo) && in(d.Got) && in(d.Want)
}

// alike is a rule by which errors of certain numbers depend on the plan. Forms that avoid them, and
// settings, have to give the same on both servers.
func alike(as way, numbers ...int) func(context.Context, *worker, *Difference) bool {
	return func(ctx context.Context, w *worker, d *Difference) bool {
		return d.errs(numbers...) && (as.forms == nil || d.has(as.forms)) && w.agree(ctx, d, as, as)
	}
}

// alikeRows is a rule by which other rows, or digits, come of numbers that both servers are to
// compute in another way.
func alikeRows(forms map[string]string) func(context.Context, *worker, *Difference) bool {
	as := way{forms: forms}
	return func(ctx context.Context, w *worker, d *Difference) bool {
		return (d.Class == Rows || d.Class == Digits) && d.has(forms) && w.agree(ctx, d, as, as)
	}
}

// yearRows is a rule by which MariaDB takes a constant of two digits for a year beside a YEAR, and
// not in a comparison of rows. Written as the manual has it, it is an error 1292 of its strict
// mode.
func yearRows(ctx context.Context, w *worker, d *Difference) bool {
	if d.St == nil || d.Class != Affected {
		return false
	}
	last := Difference{St: d.St}
	as := way{forms: rowForms, before: lenient.before, after: lenient.after, late: true}
	here := as
	here.forms = nil
	return last.has(rowForms) && last.has(map[string]string{noteYear: ""}) && w.agree(ctx, d, here, as)
}

// binaryRows is a rule by which MariaDB compares texts of an IN of rows by the collation of the
// first one, also with a column of utf8mb4_bin. If the bytes are compared, both have to agree.
func binaryRows(ctx context.Context, w *worker, d *Difference) bool {
	if d.St == nil || d.Class != Affected && d.Class != Rows || !w.hasBinary() {
		return false
	}
	as := way{late: true, forms: map[string]string{"(($, $) IN (($, $), ($, $)))": "((($1 = $3) AND (BINARY $2 = BINARY $4)) OR " +
		"(($1 = $5) AND (BINARY $2 = BINARY $6)))"}}
	return (&Difference{St: d.St}).has(as.forms) && w.agree(ctx, d, as, as)
}

// hasBinary reports whether a table has a column whose collation tells all texts apart.
func (w *worker) hasBinary() bool {
	return slices.ContainsFunc(w.schema.Tables, func(t *Table) bool {
		return slices.ContainsFunc(t.Cols, func(c *Column) bool { return strings.HasSuffix(c.Type, "_bin") })
	})
}

// lists reports whether the statement that differs inserts a list of values: no plan decides which
// of these are computed.
func (d *Difference) lists() bool {
	if d.St == nil || d.St.Root == nil {
		return false
	}
	q := d.St.Root.String()
	return strings.Contains(q, " VALUES (") && !strings.Contains(q, "(SELECT ")
}

// warned is a rule by which an error of a change is a warning of MariaDB.
func warned(ctx context.Context, w *worker, d *Difference) bool { return warnedAs(ctx, w, d, nil) }

// warnedToo is warned in the words of other rules.
func warnedToo(ctx context.Context, w *worker, d *Difference) bool {
	return d.has(allForms) && warnedAs(ctx, w, d, allForms)
}

func warnedAs(ctx context.Context, w *worker, d *Difference, forms map[string]string) bool {
	if d.Class != ErrorHere && !d.null() || d.Sts == nil || d.St == nil || !slices.Contains(conversions, d.Got.Errno) ||
		w.reset(ctx, changed(d.Sts)) != nil {
		return false
	}
	if len(d.Sts) == 1 {
		w.ref.Run(ctx, "START TRANSACTION")
		defer w.ref.Run(ctx, "ROLLBACK")
	}
	for _, st := range d.Sts {
		w.ref.Run(ctx, st.Root.Text(forms))
		if st == d.St {
			break
		}
	}
	return slices.ContainsFunc(w.ref.Run(ctx, "SHOW WARNINGS").Rows, func(row []string) bool {
		code, _ := strconv.Atoi(row[1])
		return sameError(d.Got.Errno, code)
	})
}

// null reports whether the reference got past the value that is an error here, to a NULL that is
// one.
func (d *Difference) null() bool { return d.Class == ErrorNo && d.Want.Errno == 1048 }

// conversions are errors of strict mode; others are those of values in any mode.
var (
	conversions = []int{1264, 1292, 1365, 1366, 1411, 1441, 1916, 3020}
	wrongValues = append([]int{1048, 1062, 1242, 1265, 1364, 1369, 1406, 1690}, conversions...)
	mixes       = []int{1267, 1270, 1271}
)

// contradicted is a rule by which MariaDB answers as we do if it may not optimize.
func contradicted(ctx context.Context, w *worker, d *Difference) bool {
	if !w.ref.maria || d.Class == TypeClass || d.Class == Lost {
		return false
	}
	res := w.ref.Run(ctx, "SELECT @@optimizer_switch")
	if len(res.Rows) != 1 {
		return false
	}
	off := strings.Replace(strings.ReplaceAll(res.Rows[0][0], "=on", "=off"), "in_to_exists=off", "in_to_exists=on", 1)
	return w.agree(ctx, d, way{}, way{before: []string{"SET optimizer_switch = '" + off + "'"},
		after: []string{"SET optimizer_switch = DEFAULT"}})
}

var common = regexp.MustCompile(`^(a\d+) AS \(`)

// unused is a rule by which MariaDB finds errors in a common table that nobody uses: MySQL looks at
// one where it is used.
func unused(ctx context.Context, w *worker, d *Difference) bool {
	if d.Class != ErrorGone && d.Class != ErrorNo || d.Sts != nil || !strings.HasPrefix(d.St.Root.Form, "WITH ") {
		return false
	}
	with, rest := d.St.Root.Kids[0], d.St.Root.Kids[1].String()
	var kept []*Node
	for i := len(with.Kids) - 1; i >= 0; i-- {
		text := with.Kids[i].String()
		m := common.FindStringSubmatch(text)
		if m != nil && !regexp.MustCompile(`\b`+m[1]+`\b`).MatchString(rest) {
			continue
		}
		kept = append([]*Node{with.Kids[i]}, kept...)
		rest += text
	}
	if len(kept) == len(with.Kids) {
		return false
	}
	st := *d.St
	st.Root = d.St.Root.Kids[1]
	if kept != nil {
		st.Root = node(Query, d.St.Root.Form, list(", ", 1, kept...), st.Root)
	}
	e := Difference{St: &st, SQL: st.Root.String()}
	e.Got, e.Want = w.both(ctx, e.SQL)
	return e.same() || w.explains(ctx, &e) != "" // without it, another rule may hold
}

var limited = regexp.MustCompile(`^(.*) LIMIT (\d+)(?: OFFSET (\d+))?$`)

// cut is a rule by which LIMIT gives other rows in MariaDB than those that it has without it.
func cut(ctx context.Context, w *worker, d *Difference) bool {
	m := limited.FindStringSubmatch(d.SQL)
	if m == nil || d.Sts != nil || d.Class != Rows {
		return false
	}
	want := *w.ref.Run(ctx, m[1])
	limit, _ := strconv.Atoi(m[2])
	offset, _ := strconv.Atoi(m[3])
	want.Rows = want.Rows[min(offset, len(want.Rows)):min(offset+limit, len(want.Rows))]
	return (&Difference{St: d.St, SQL: d.SQL, Got: d.Got, Want: &want}).same()
}

var ordered = regexp.MustCompile(`^(.*) ORDER BY [0-9, DESC]+ LIMIT \d+( OFFSET \d+)?$`)

// unsorted is a rule by which MariaDB sorts the NULLs of ALL and ANY as 0: without order and LIMIT
// the rows are the same.
func unsorted(ctx context.Context, w *worker, d *Difference) bool {
	if d.Sts != nil || d.Class != Rows {
		return false
	}
	m := ordered.FindStringSubmatch(d.SQL)
	if m == nil || !d.has(map[string]string{"($ <= ANY ($))": "", "($ > ALL ($))": "", "($ < ALL ($))": ""}) {
		return false
	}
	st := Statement{Root: leaf(Query, m[1])}
	return w.agree(ctx, &Difference{St: &st, SQL: m[1]}, way{}, way{})
}

// typed is a rule about the type of a column whose values are the same.
func typed(detail string, sql *regexp.Regexp) func(context.Context, *worker, *Difference) bool {
	return func(_ context.Context, _ *worker, d *Difference) bool {
		return d.Class == TypeClass && strings.HasSuffix(d.Detail, detail) && sql.MatchString(d.SQL)
	}
}

// refused is a rule about a number of an error in MariaDB, where we answer.
func refused(number int, sql *regexp.Regexp) func(context.Context, *worker, *Difference) bool {
	return func(_ context.Context, _ *worker, d *Difference) bool {
		return d.Class == ErrorGone && d.Want.Errno == number && sql.MatchString(d.SQL)
	}
}

// apart is a rule by which MariaDB takes the order of one window for another one: with one of them
// at a time, the answers are the same, without LIMIT if there is one.
func apart(ctx context.Context, w *worker, d *Difference) bool {
	if d.Sts != nil {
		return false
	}
	over := func(n *Node) bool { return strings.Contains(n.Form, " OVER (") }
	alone := func(list *Node) bool {
		all := list.Kids
		defer func() { list.Kids = all }()
		n := 0
		for i, k := range all {
			if !over(k) {
				continue
			}
			n++
			list.Kids = append(slices.Clone(all[:i]), all[i+1:]...)
			st := Statement{Root: d.St.Root}
			if q := d.St.Root.String(); d.St.Ordered > 0 { // by position, of columns that are gone
				st.Root = leaf(Query, q[:strings.LastIndex(q, " ORDER BY ")])
			}
			if !w.agree(ctx, &Difference{St: &st, SQL: st.Root.String()}, way{}, way{}) {
				return false
			}
		}
		return n > 1
	}
	return d.St.Root.below(func(n *Node) bool { return n.List && slices.ContainsFunc(n.Kids, over) && alone(n) })
}

// numberForSet is a rule by which a table differs in nothing but SETs, after numbers that are texts
// were inserted.
func numberForSet(_ context.Context, w *worker, d *Difference) bool {
	if d.Class != Stored || !strings.Contains(d.SQL, "INSERT IGNORE") || len(d.Got.Rows) != len(d.Want.Rows) {
		return false
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(d.Detail, "SELECT * FROM "), ":")
	at := slices.IndexFunc(w.schema.Tables, func(t *Table) bool { return t.Name == name })
	if at < 0 {
		return false
	}
	blank := func(r *Result) *Result {
		out := *r
		out.Rows = nil
		for _, row := range r.Rows {
			row = slices.Clone(row)
			for i, c := range w.schema.Tables[at].Cols {
				if strings.HasPrefix(c.Type, "SET(") {
					row[i] = ""
				}
			}
			out.Rows = append(out.Rows, row)
		}
		return &out
	}
	return (&Difference{St: &Statement{}, Got: blank(d.Got), Want: blank(d.Want)}).compare()
}

var numberIntoView = regexp.MustCompile(`^INSERT IGNORE INTO [vw](t\d+) .*CAST\(-\d+ AS CHAR\)`)

// numberForView is numberForSet where the condition of a view asks for the SET: MariaDB stores all
// members, and the row stands; we store none of them, and the row is ignored.
func numberForView(_ context.Context, w *worker, d *Difference) bool {
	if d.Class != Affected || d.St == nil || d.Got.Affected >= d.Want.Affected {
		return false
	}
	m := numberIntoView.FindStringSubmatch(d.St.Root.String())
	return m != nil && slices.ContainsFunc(w.schema.Tables, func(t *Table) bool {
		return t.Name == m[1] && slices.ContainsFunc(t.Cols, func(c *Column) bool { return strings.HasPrefix(c.Type, "SET(") })
	})
}

var joinedView = regexp.MustCompile(`^UPDATE [vw]t\d+ me `)

// mixed is a rule by which MariaDB does not see a mix of collations in a subquery whose WHERE is
// false, or whose join has no rows. If no condition is FALSE, it has to see one.
func mixed(ctx context.Context, w *worker, d *Difference) bool {
	if d.Class != ErrorHere && d.Class != ErrorNo || !slices.Contains(mixes, d.Got.Errno) || !strings.Contains(d.SQL, "SELECT") {
		return false
	}
	if d.Sts != nil {
		if d.St == nil || w.reset(ctx, changed(d.Sts)) != nil {
			return false
		}
		w.ref.Run(ctx, "START TRANSACTION")
		defer w.ref.Run(ctx, "ROLLBACK")
	}
	open := map[string]string{" WHERE $": " WHERE ($1 OR RAND() > 2 OR TRUE)"}
	for _, j := range []string{"", "LEFT ", "RIGHT "} {
		open["$ "+j+"JOIN $ ON $"] = "$1 " + j + "JOIN $2 ON ($3 OR RAND() > 2 OR TRUE)"
	}
	return slices.Contains(mixes, w.ref.Run(ctx, d.St.Root.Text(open)).Errno)
}

// anyOf is ANY by a condition over the column c of the subquery.
func anyOf(cond string) string {
	return "(WITH q (c) AS ($2) SELECT CASE WHEN MAX(" + cond + ") = 1 THEN 1 WHEN SUM(" + cond +
		" IS NULL) > 0 THEN NULL ELSE 0 END FROM q)"
}

// existing is anyOf for subqueries that name columns of other tables: by EXISTS, and a condition
// over the column c in HAVING.
func existing(cond string) string {
	return "(CASE WHEN EXISTS ($2 HAVING " + cond + ") THEN 1 WHEN EXISTS ($2 HAVING " + cond + " IS NULL) THEN NULL ELSE 0 END)"
}

// anyForms are those of existing.
var anyForms = map[string]string{
	"($ = ANY ($))": existing("($1 = c)"), "($ <> ALL ($))": "(NOT " + existing("($1 = c)") + ")",
	"($ <= ANY ($))": existing("($1 <= c)"), "($ > ALL ($))": "(NOT " + existing("($1 <= c)") + ")",
	"($ < ALL ($))":              "(NOT " + existing("($1 >= c)") + ")",
	"integer   SELECT $ FROM $$": "SELECT $1 AS c FROM $2$3",
}

var aggregate = regexp.MustCompile(`(COUNT|MIN|MAX|SUM|AVG|BIT_\w+|STDDEV_POP|VAR_SAMP|VARIANCE|GROUP_CONCAT)\(`)

// compares reports whether ANY or ALL is in the statements, and never over an aggregate: it would
// be one of the subquery if it stood there.
func (d *Difference) compares() bool {
	found, aggregates := false, false
	for _, st := range d.statements() {
		st.Root.below(func(n *Node) bool {
			if _, ok := anyForms[n.Form]; ok && len(n.Kids) == 2 {
				found, aggregates = true, aggregates || aggregate.MatchString(n.Kids[0].String())
			}
			return false
		})
	}
	return found && !aggregates
}

// anyExists is a rule by which ANY and ALL are those comparisons of rows of the subquery.
func anyExists(ctx context.Context, w *worker, d *Difference) bool {
	return d.compares() && w.agree(ctx, d, way{}, way{forms: anyForms})
}

// untyped are NULLs with a type that fits each number.
var untyped = map[string]string{"integer NULL": "CAST(NULL AS SIGNED)", "decimal NULL": "CAST(NULL AS DECIMAL(1,0))",
	"double NULL": "CAST(NULL AS DOUBLE)"}

// mixedToo is a rule by which MariaDB finds a mix of collations if there is no aggregate of a
// subquery, for which it has another error.
func mixedToo(ctx context.Context, w *worker, d *Difference) bool {
	if d.Class != ErrorNo || d.Sts != nil || !slices.Contains(mixes, d.Got.Errno) ||
		d.Want.Errno != 1111 && d.Want.Errno != 1140 || !aggregateOf.MatchString(d.SQL) {
		return false
	}
	plain := map[string]string{}
	for _, fs := range aggregates {
		for _, f := range fs {
			plain[f.text] = strings.ReplaceAll(f.text, "$", "1")
		}
	}
	return slices.Contains(mixes, w.ref.Run(ctx, d.St.Root.Text(plain)).Errno)
}

var aggregateOf = regexp.MustCompile(aggregate.String() + `.*\(SELECT`)

// lenient is without strict mode.
var lenient = way{
	before: []string{"SET sql_mode = REPLACE(@@sql_mode, 'STRICT_TRANS_TABLES', '')"},
	after:  []string{"SET sql_mode = CONCAT(@@sql_mode, ',STRICT_TRANS_TABLES')"},
}

// rowForms are comparisons of rows by those of their values.
var rowForms = map[string]string{
	"(($, $) = ($, $))":            "(($1 = $3) AND ($2 = $4))",
	"(($, $) IN (($, $), ($, $)))": "((($1 = $3) AND ($2 = $4)) OR (($1 = $5) AND ($2 = $6)))",
	"(($, $) < ($, $))":            "(($1 < $3) OR (($1 = $3) AND ($2 < $4)))",
}

// lenientToo is a rule by which the plan decides which values are computed, where MariaDB answers
// otherwise besides, by other rules.
func lenientToo(ctx context.Context, w *worker, d *Difference) bool {
	if d.Sts == nil || d.lists() || !d.errs(conversions...) || !d.has(allForms) {
		return false
	}
	ref := lenient
	ref.forms = allForms
	return w.agree(ctx, d, lenient, ref)
}

// wider are numbers that are out of no range.
var wider = map[string]string{
	"($ + $)": "(CAST($1 AS DECIMAL(50,10)) + $2)", "($ - $)": "(CAST($1 AS DECIMAL(50,10)) - $2)",
	"($ * 2)": "(CAST($1 AS DECIMAL(50,10)) * 2)", "(- $)": "(0.0 - $1)", "ABS($)": "ABS(0.0 + $1)",
	"ROUND($, -1)": "ROUND(0.0 + $1, -1)", "($ DIV $)": "FLOOR($1 / $2)", "SUM($)": "MAX($1)",
}

// rules are asked one after the other.
var rules []rule

func init() {
	rules = allRules()
}

func allRules() []rule {
	return []rule{
		{"a comparison of rows",
			"12.4.2, 13.2.15.5: (a, b) = (x, y) is the same as a = x AND b = y; (a, b) < (x, y) as a < x OR a = x AND b < y",
			rewritten(rowForms)},
		{"a comparison of rows, one of them a YEAR: without strict mode all is the same", "12.4.2, 5.1.11", yearRows},
		{"an IN of rows compares texts by the collation of both", "12.4.2, 10.8.4", binaryRows},
		{"a DOUBLE and an integer compare as DOUBLEs, also by an index", "12.3", rewritten(map[string]string{
			"double integer ($ = $)": "($1 = ($2 + 0e0))", "double integer ($ > $)": "($1 > ($2 + 0e0))",
		})},
		{"an integer and a text compare as DOUBLEs, also by an index", "12.3", rewritten(map[string]string{
			"integer text ($ = $)": "(($1 + 0e0) = $2)", "text integer ($ < $)": "($1 < ($2 + 0e0))",
		})},
		{"BIT_AND, BIT_OR and BIT_XOR are unsigned", "12.19.1", rewritten(map[string]string{
			"BIT_AND($)": "CAST(BIT_AND($1) AS DECIMAL(20,0))", "BIT_OR($)": "CAST(BIT_OR($1) AS DECIMAL(20,0))", "BIT_XOR($)": "CAST(BIT_XOR($1) AS DECIMAL(20,0))",
		})},
		{"a YEAR is a number in a comparison", "12.3", rewritten(map[string]string{noteYear: "($1 + 0)"})},
		{"FIELD of NULL is 0, so it does not reject the NULLs of an outer join", "12.8", rewritten(map[string]string{
			"FIELD($, $, $)": "IFNULL(FIELD($1, $2, $3), 0)"})},
		{"INTERVAL counts the numbers that are not greater, and is -1 for NULL, also over a join or a set operation", "12.4.2",
			rewritten(map[string]string{"INTERVAL($, 1, 3, 5)": "CASE WHEN ($1) IS NULL THEN -1 WHEN ($1) < 1 THEN 0 " +
				"WHEN ($1) < 3 THEN 1 WHEN ($1) < 5 THEN 2 ELSE 3 END"})},
		{"numbers compare as numbers, also by an index", "12.3", rewritten(map[string]string{
			"decimal decimal ($ = $)": "(($1 + 0.0) = ($2 + 0.0))", "integer integer ($ = $)": "(($1 + 0.0) = ($2 + 0.0))",
			"decimal integer ($ = $)": "(($1 + 0.0) = ($2 + 0.0))", "integer decimal ($ = $)": "(($1 + 0.0) = ($2 + 0.0))",
			"decimal integer ($ < $)": "(($1 + 0.0) < ($2 + 0.0))", "decimal decimal ($ < $)": "(($1 + 0.0) < ($2 + 0.0))",
			"decimal integer decimal ($ BETWEEN $ AND $)": "(($1 + 0.0) BETWEEN ($2 + 0.0) AND ($3 + 0.0))",
			"decimal decimal integer ($ IN ($, $))":       "(($1 + 0.0) IN ($2, $3))"})},
		{"= finds no NULL, also beside <=> of the same column", "12.4.2", rewritten(map[string]string{
			"($ <=> $)": "(CASE WHEN ($1) IS NULL OR ($2) IS NULL THEN ($1) IS NULL AND ($2) IS NULL ELSE ($1) = ($2) END)"})},
		{"VARIANCE and its like are DOUBLEs with all their digits, and no NULL where there are rows", "12.19.1", rewritten(map[string]string{
			"VARIANCE($)": "(VARIANCE(($1) + 0e0) + 0)", "VAR_SAMP($)": "(VAR_SAMP(($1) + 0e0) + 0)",
			"STDDEV_POP($)": "(STDDEV_POP(($1) + 0e0) + 0)"})},
		{"a number that was made a text is a text", "12.10", rewritten(map[string]string{
			"CAST($ AS CHAR)": "CONCAT(CAST($1 AS CHAR), '')"})},
		{"MIN and MAX compare ENUM and SET as texts", "12.19.1", rewritten(map[string]string{
			"text MIN($)": "MIN(CONCAT($1, ''))", "text MAX($)": "MAX(CONCAT($1, ''))"})},
		{"ELT picks an argument by its number, also in an outer join, and by a BIGINT", "12.8", rewritten(map[string]string{
			"ELT($, $, $)": "CASE $1 WHEN 1 THEN $2 WHEN 2 THEN $3 END"})},
		{"FIELD of numbers compares numbers, also of BIGINT UNSIGNED", "12.8", rewritten(map[string]string{
			"integer integer integer FIELD($, $, $)": "IFNULL(FIELD($1 + 0.0, $2 + 0.0, $3 + 0.0), 0)"})},
		{"DIV has all digits of its dividend, also in a UNION with an unsigned integer", "12.6.1, 13.2.18", rewritten(map[string]string{
			"($ DIV $)": "(($1 DIV $2) + 0)"})},
		{"a zero that % gives has no sign", "11.1.3", rewritten(map[string]string{"($ % $)": "(0 + ($1 % $2))"})},
		{"HAVING finds the keys of GROUP BY", "13.2.13", func(ctx context.Context, w *worker, d *Difference) bool {
			forms := map[string]string{noteGroup: "MIN($1)"}
			if d.Want.Errno != 1054 && d.Want.Errno != 1463 || d.Class != ErrorGone || !d.has(forms) {
				return false
			}
			both := maps.Clone(anyForms) // MariaDB differs in something else besides
			maps.Copy(both, forms)
			return w.agree(ctx, d, way{}, way{forms: forms}) || d.compares() && w.agree(ctx, d, way{}, way{forms: both})
		}},
		{"TIME keeps a fraction that CAST AS TIME rounds", "12.7", rewritten(map[string]string{
			"TIME($)": "ADDTIME(TIME($1), '00:00:00')"})},
		{"TIME_TO_SEC is a whole number, whatever the fraction", "12.7", rewritten(map[string]string{
			"TIME_TO_SEC($)": "TRUNCATE(TIME_TO_SEC($1), 0)"})},
		{"GREATEST of texts compares texts, also where a number is asked for", "12.4.2", rewritten(map[string]string{
			"text text GREATEST($, $)": "CONCAT(GREATEST($1, $2), '')"})},
		{"IN is = with one of the list, and NULL if there is a NULL", "12.4.2",
			func(ctx context.Context, w *worker, d *Difference) bool {
				forms := map[string]string{"($ NOT IN ($, $))": "(NOT (($1 = $2) OR ($1 = $3)))",
					"($ IN ($, $))": "(($1 = $2) OR ($1 = $3))", "($ IN ($, $, $))": "(($1 = $2) OR ($1 = $3) OR ($1 = $4))"}
				return d.Class == Rows && d.has(forms) && w.agree(ctx, d, way{}, way{forms: forms})
			}},
		{"NOT IN is NULL if there is a NULL, also in an index of other numbers", "12.4.2", rewritten(map[string]string{
			"integer   SELECT $ FROM $$": "SELECT CAST($1 AS DECIMAL(50,10)) FROM $2$3",
			"decimal   SELECT $ FROM $$": "SELECT CAST($1 AS DECIMAL(50,10)) FROM $2$3",
			"double   SELECT $ FROM $$":  "SELECT ($1 + 0) FROM $2$3"})},
		{"MIN and MAX of no times are NULL, also in HAVING", "12.19.1", rewritten(map[string]string{
			"datetime MIN($)": "MIN(CAST($1 AS DATETIME(6)))", "datetime MAX($)": "MAX(CAST($1 AS DATETIME(6)))"})},
		{"MIN and MAX of no numbers are NULL, also in HAVING and by an index", "12.19.1", rewritten(map[string]string{
			"integer MIN($)": "MIN(($1) + 0)", "integer MAX($)": "MAX(($1) + 0)",
			"decimal MIN($)": "MIN(($1) + 0)", "decimal MAX($)": "MAX(($1) + 0)"})},
		{"the condition of a CASE is true or not: of an AND with NULL, that is known", "12.4.3, 12.5", rewritten(map[string]string{
			"CASE WHEN $ THEN $ ELSE $ END":        "CASE WHEN IF($1, TRUE, FALSE) THEN $2 ELSE $3 END",
			"CASE WHEN $ THEN $ WHEN $ THEN $ END": "CASE WHEN IF($1, TRUE, FALSE) THEN $2 WHEN IF($3, TRUE, FALSE) THEN $4 END"})},
		{"a SET is compared as a text, also with those of a subquery", "11.3.6", func(ctx context.Context, w *worker, d *Difference) bool {
			as := way{forms: map[string]string{"text   SELECT $ FROM $$": "SELECT CONCAT($1, '') FROM $2$3",
				"text text text ($ BETWEEN $ AND $)": "(CONCAT($1, '') BETWEEN $2 AND $3)"}}
			return d.has(as.forms) && w.agree(ctx, d, as, as)
		}},
		{"ANY and ALL are NULL over nothing but NULL", "13.2.15.3, 13.2.15.4", rewritten(map[string]string{
			"($ <= ANY ($))": anyOf("($1 <= c)"), "($ > ALL ($))": "(NOT " + anyOf("($1 <= c)") + ")",
			"($ < ALL ($))": "(NOT " + anyOf("($1 >= c)") + ")"})},
		{"ANY and ALL are NULL over nothing but NULL, also for columns of other tables", "13.2.15.3, 13.2.15.4", anyExists},
		{"the NULLs of ANY and ALL sort first", "13.2.13", unsorted},
		{"a common table is looked at where it is used", "13.2.20", unused},
		{"LIMIT gives some of the rows that are there without it", "13.2.13", cut},
		{"MariaDB answers so too, without its optimizer's switches", "MariaDB itself", contradicted},
		{"several of the above", "as there", several},
		{"each window by itself", "12.20.2: a window has its own order", apart},
		{"ROUND and TRUNCATE have no more digits than their argument, also in a text", "12.6.2",
			func(ctx context.Context, w *worker, d *Difference) bool {
				as := way{forms: map[string]string{"ROUND($, 1)": "CAST(ROUND($1, 1) AS DECIMAL(50,1))",
					"TRUNCATE($, 1)": "CAST(TRUNCATE($1, 1) AS DECIMAL(50,1))"}}
				return d.has(as.forms) && w.agree(ctx, d, as, as)
			}},
		{"AVG of ASCII has room for three digits", "12.19.1: a DECIMAL of the digits of the argument, and four",
			func(ctx context.Context, w *worker, d *Difference) bool {
				as := way{forms: map[string]string{"ASCII($)": "(ASCII($1) + 0)"}}
				return strings.Contains(d.SQL, "AVG(") && d.has(as.forms) && w.agree(ctx, d, as, as)
			}},
		{"a text that is no member of a SET, but a number of more members than it has, is ''", "11.3.6", numberForSet},
		{"a text that is no member of a SET is '', also for the condition of a view", "11.3.6", numberForView},
		{"INSTR and LOCATE compare characters, not as many bytes", "12.8: they are multibyte safe",
			func(ctx context.Context, w *worker, d *Difference) bool {
				as := way{forms: map[string]string{
					"INSTR($, $)":  "INSTR(CONVERT($1 USING latin1), CONVERT($2 USING latin1))",
					"LOCATE($, $)": "LOCATE(CONVERT($1 USING latin1), CONVERT($2 USING latin1))"}}
				return d.has(as.forms) && w.agree(ctx, d, as, as)
			}},
		{"digits of a quotient beyond those that it shows", "12.6.1: the scale is that of the dividend and four",
			func(ctx context.Context, w *worker, d *Difference) bool {
				as := way{forms: map[string]string{"($ / $)": "CAST($1 / $2 AS DECIMAL(50,10))"}}
				if !strings.Contains(d.SQL, " OVER (") { // a CAST is no function of a window
					as.forms["AVG($)"] = "CAST(AVG($1) AS DECIMAL(50,10))"
					as.forms["AVG(DISTINCT $)"] = "CAST(AVG(DISTINCT $1) AS DECIMAL(50,10))"
				}
				return d.has(as.forms) && w.agree(ctx, d, as, as)
			}},
		{"a dividend has the digits of its type, whichever its value has", "12.6.1: the scale is that of the dividend and four",
			func(ctx context.Context, w *worker, d *Difference) bool {
				as := way{forms: map[string]string{"($ / $)": "CAST(CAST($1 AS DECIMAL(60,20)) / $2 AS DECIMAL(50,10))"}}
				return (d.Class == Rows || d.Class == Digits) && d.has(as.forms) && w.agree(ctx, d, as, as)
			}},
		{"GREATEST of a DECIMAL and an integer holds both", "12.4.2, 11.1.3: a result has the digits that its values need",
			alikeRows(map[string]string{"decimal integer GREATEST($, $)": "GREATEST(CAST($1 AS DECIMAL(50,10)), $2)"})},
		{"a product has the digits of both factors, up to 65 and 30", "12.21.2",
			alikeRows(map[string]string{"decimal decimal ($ * $)": "CAST($1 * $2 AS DECIMAL(60,10))"})},
		{"a product of long factors is exact, up to 65 and 30 digits", "12.21.2",
			alikeRows(map[string]string{"decimal decimal ($ * $)": "(CAST($1 AS DECIMAL(50,9)) * CAST($2 AS DECIMAL(50,9)))"})},
		{"the last digits of a DOUBLE tell values apart that are shown alike", "B.3.4.8",
			alikeRows(map[string]string{"ATAN2($, $)": "ROUND(ATAN2($1, $2), 9)"})},
		{"a change fails where MariaDB warns", "5.1.11, Strict SQL Mode", warned},
		{"a change fails where MariaDB warns, written as another rule has it", "5.1.11, and as there", warnedToo},
		{"the plan decides which values are computed: without strict mode all is the same", "5.1.11",
			func(ctx context.Context, w *worker, d *Difference) bool {
				return d.Sts != nil && !d.lists() && alike(lenient, conversions...)(ctx, w, d)
			}},
		{"the plan decides which values are computed: without strict mode, written as other rules have it, all is the same",
			"5.1.11, and as there", lenientToo},
		{"the plan decides which values are computed: without strict mode for a statement of a transaction all is the same",
			"5.1.11", func(ctx context.Context, w *worker, d *Difference) bool {
				as := way{before: lenient.before, after: lenient.after, late: true}
				return len(d.Sts) > 1 && !d.lists() && alike(as, conversions...)(ctx, w, d)
			}},
		{"the plan decides which numbers are computed: with wider ones all is the same", "11.1.7",
			func(ctx context.Context, w *worker, d *Difference) bool {
				if alike(way{forms: wider}, 1690)(ctx, w, d) {
					return true
				}
				both := maps.Clone(allForms) // MariaDB differs in something else besides
				maps.Copy(both, wider)
				return d.errs(1690) && d.has(wider) && d.has(allForms) && w.agree(ctx, d, way{forms: wider}, way{forms: both})
			}},
		{"the plan decides which numbers and values are computed: with wider ones, and without strict mode, all is the same",
			"11.1.7, 5.1.11", func(ctx context.Context, w *worker, d *Difference) bool {
				as := way{forms: wider, before: lenient.before, after: lenient.after}
				return d.Sts != nil && !d.lists() && alike(as, append([]int{1690}, conversions...)...)(ctx, w, d)
			}},
		{"the plan decides which of several wrong values is found first", "5.1.11",
			func(_ context.Context, _ *worker, d *Difference) bool {
				return d.Class == ErrorNo && d.Sts != nil && !d.lists() && d.errs(wrongValues...)
			}},
		{"another one of several mixes of collations is found first", "10.8.4",
			func(_ context.Context, _ *worker, d *Difference) bool {
				return d.Class == ErrorNo && d.errs(mixes...)
			}},
		{"a mix of collations, and a wrong aggregate or group in a common or derived table: one of them is found first",
			"10.8.4, 12.19.1, 13.2.13", func(_ context.Context, _ *worker, d *Difference) bool {
				return d.Class == ErrorNo && (strings.HasPrefix(d.SQL, "WITH ") || strings.Contains(d.SQL, "JOIN (SELECT ")) &&
					slices.Contains(mixes, d.Got.Errno) && (d.Want.Errno == 1111 || d.Want.Errno == 1463)
			}},
		{"a mix of collations, and an aggregate of a subquery that has one: one of them is found first", "10.8.4, 13.2.15", mixedToo},
		{"what is compared with NULL needs no collation", "10.8.4",
			func(_ context.Context, _ *worker, d *Difference) bool {
				return d.Class == ErrorGone && d.Want.Errno == 1267 && strings.Contains(d.Want.Message, "(binary,IGNORABLE)")
			}},
		{"a mix of collations is refused, also in a subquery that has no rows", "10.8.4", mixed},
		{"INSERT IGNORE of a row that a CHECK OPTION forbids", "13.2.6: IGNORE makes a warning of ER_VIEW_CHECK_FAILED",
			func(_ context.Context, _ *worker, d *Difference) bool {
				return d.Class == ErrorGone && d.Want.Errno == 1369 && d.St != nil &&
					strings.HasPrefix(d.St.Root.String(), "INSERT IGNORE")
			}},
		{"CHECK OPTION of a view in an UPDATE of several tables", "25.5.4: the row must satisfy the condition of the view",
			func(_ context.Context, _ *worker, d *Difference) bool {
				return d.St != nil && d.errs(1369) && joinedView.MatchString(d.St.Root.String())
			}},
		{"ROUND and TRUNCATE have no more digits than their argument", "12.6.2",
			func(_ context.Context, _ *worker, d *Difference) bool {
				return d.Class == Digits && (strings.Contains(d.SQL, "TRUNCATE(") || strings.Contains(d.SQL, "ROUND("))
			}},
		{"the type of a UNION of unsigned and signed integers, and NULL", "13.2.18",
			typed("is integer instead of decimal", regexp.MustCompile(` (UNION|UNION ALL|EXCEPT|INTERSECT) `))},
		{"ROUND has the type of its argument", "12.6.2",
			typed("is integer instead of decimal", regexp.MustCompile(`ROUND\(.*, -1\)`))},
		{"NULL has no type of its own in COALESCE, IF, CASE, MIN and MAX", "12.4.3, 12.5",
			typed("instead of text", regexp.MustCompile(`NULL`))},
		{"NULL has no type of its own in a common or derived table, IF and UNION", "12.5, 13.2.18",
			func(ctx context.Context, w *worker, d *Difference) bool {
				return (d.Class == TypeClass || d.Class == Rows || d.Class == Digits) && d.has(untyped) &&
					w.agree(ctx, d, way{}, way{forms: untyped})
			}},
		{"LEAST and GREATEST of integers are integers", "12.4.2",
			typed("is integer instead of decimal", regexp.MustCompile(`(LEAST|GREATEST)\(`))},
		{"the negative of an integer is one", "12.6.1",
			typed("is integer instead of decimal", regexp.MustCompile(`\(- `))},
		{"CASE, IF and COALESCE of integers are integers", "12.5",
			typed("is integer instead of decimal", regexp.MustCompile(`(CASE|IF\(|COALESCE\(|IFNULL\(|NULLIF\()`))},
		{"LEAST and GREATEST of a number and NULL have the type of the number", "12.4.2",
			typed("instead of double", regexp.MustCompile(`(LEAST|GREATEST)\(.*NULL`))},
		{"a text is a DOUBLE in arithmetic, also that of an ENUM", "12.3",
			typed("is double instead of decimal", regexp.MustCompile(`\+ 0\)`))},
		{"a text is a DOUBLE in arithmetic, also that of an ENUM", "12.3",
			typed("is double instead of integer", regexp.MustCompile(`\+ 0\)`))},
		{"an aggregate of a subquery that has one, too", "13.2.15",
			refused(1111, regexp.MustCompile(`(COUNT|MIN|MAX|SUM|AVG|BIT_\w+|STDDEV_POP|VAR_SAMP|VARIANCE|GROUP_CONCAT)\(.*\(SELECT`))},
		{"an aggregate of a subquery that has one, over another subquery", "13.2.15",
			refused(1140, regexp.MustCompile(`(COUNT|MIN|MAX|SUM|AVG|BIT_\w+|STDDEV_POP|VAR_SAMP|VARIANCE|GROUP_CONCAT)\(.*\(SELECT.*\(SELECT`))},
	}
}
