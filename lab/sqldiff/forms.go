package sqldiff

// form is a way to make an expression: its text, and the kinds of what stands for each $.
type form struct {
	text string
	args []Kind
}

// forms are the expressions of each kind. What MySQL leaves open, or computes otherwise than
// MariaDB by design, is not among them.
var forms = map[Kind][]form{
	Int: {
		{"($ + $)", []Kind{Int, Int}}, {"($ - $)", []Kind{Int, Int}}, {"($ * 2)", []Kind{Int}},
		{"(- $)", []Kind{Int}}, {"($ DIV $)", []Kind{Int, Int}}, {"($ % $)", []Kind{Int, Int}},
		{"MOD($, 3)", []Kind{Int}}, {"ABS($)", []Kind{Int}}, {"SIGN($)", []Kind{Int}},
		{"SIGN($)", []Kind{Decimal}}, {"LENGTH($)", []Kind{Text}}, {"CHAR_LENGTH($)", []Kind{Text}},
		{"ASCII($)", []Kind{Text}}, {"INSTR($, $)", []Kind{Text, Text}}, {"LOCATE($, $)", []Kind{Text, Text}},
		{"STRCMP($, $)", []Kind{Text, Text}}, {"FIELD($, $, $)", []Kind{Text, Text, Text}},
		{"FIELD($, $, $)", []Kind{Int, Int, Int}}, {"INTERVAL($, 1, 3, 5)", []Kind{Int}},
		{"FIND_IN_SET($, 'a,one,x')", []Kind{Text}}, {"CASE WHEN $ THEN $ ELSE $ END", []Kind{Bool, Int, Int}},
		{"CASE $ WHEN $ THEN $ END", []Kind{Int, Int, Int}},
		{"CASE $ WHEN $ THEN $ WHEN $ THEN $ ELSE $ END", []Kind{Text, Text, Int, Text, Int, Int}},
		{"IF($, $, $)", []Kind{Bool, Int, Int}}, {"COALESCE($, $)", []Kind{Int, Int}},
		{"IFNULL($, $)", []Kind{Int, Int}}, {"NULLIF($, $)", []Kind{Int, Int}},
		{"GREATEST($, $)", []Kind{Int, Int}}, {"LEAST($, $, $)", []Kind{Int, Int, Int}},
		{"($ & 7)", []Kind{Int}}, {"($ | 8)", []Kind{Int}}, {"($ ^ 5)", []Kind{Int}}, {"($ << 2)", []Kind{Int}},
		{"BIT_COUNT($)", []Kind{Int}}, {"CAST($ AS SIGNED)", []Kind{Decimal}},
		{"CAST($ AS SIGNED)", []Kind{Text}}, {"FLOOR($)", []Kind{Decimal}}, {"CEILING($)", []Kind{Decimal}},
		{"ROUND($, -1)", []Kind{Int}}, {"YEAR($)", []Kind{Date}}, {"MONTH($)", []Kind{Datetime}},
		{"DAY($)", []Kind{Date}}, {"HOUR($)", []Kind{Time}}, {"MINUTE($)", []Kind{Datetime}},
		{"MICROSECOND($)", []Kind{Datetime}}, {"DATEDIFF($, $)", []Kind{Date, Datetime}},
		{"WEEK($, 3)", []Kind{Date}}, {"WEEKDAY($)", []Kind{Date}}, {"DAYOFYEAR($)", []Kind{Date}},
		{"QUARTER($)", []Kind{Date}}, {"EXTRACT(YEAR_MONTH FROM $)", []Kind{Datetime}},
		{"TIMESTAMPDIFF(DAY, $, $)", []Kind{Datetime, Datetime}},
		{"TIMESTAMPDIFF(MONTH, $, $)", []Kind{Date, Date}}, {"TO_DAYS($)", []Kind{Date}},
		{"TIME_TO_SEC($)", []Kind{Time}}, {"($)", []Kind{Bool}}, {"($)", []Kind{Bool}},
		{"CRC32($)", []Kind{Text}},
	},
	Decimal: {
		{"($ + $)", []Kind{Decimal, Decimal}}, {"($ - $)", []Kind{Decimal, Int}},
		{"($ * $)", []Kind{Decimal, Decimal}}, {"($ / $)", []Kind{Int, Int}},
		{"($ / $)", []Kind{Decimal, Decimal}}, {"($ % $)", []Kind{Decimal, Decimal}},
		{"ROUND($, 1)", []Kind{Decimal}}, {"TRUNCATE($, 1)", []Kind{Decimal}}, {"ABS($)", []Kind{Decimal}},
		{"(- $)", []Kind{Decimal}}, {"CAST($ AS DECIMAL(10,3))", []Kind{Int}},
		{"CAST($ AS DECIMAL(12,1))", []Kind{Decimal}},
		{"CASE WHEN $ THEN $ ELSE $ END", []Kind{Bool, Decimal, Int}},
		{"COALESCE($, $)", []Kind{Decimal, Decimal}}, {"IF($, $, $)", []Kind{Bool, Decimal, Decimal}},
		{"GREATEST($, $)", []Kind{Decimal, Int}}, {"NULLIF($, $)", []Kind{Decimal, Decimal}},
		{"($ * 0.1)", []Kind{Int}},
	},
	Double: {
		{"($ + $)", []Kind{Double, Double}}, {"($ * $)", []Kind{Double, Int}},
		{"($ / $)", []Kind{Double, Decimal}}, {"SQRT($)", []Kind{Int}}, {"($ + 0)", []Kind{Text}},
		{"POW($, 2)", []Kind{Double}}, {"($ + 0e0)", []Kind{Decimal}},
		{"COALESCE($, $)", []Kind{Double, Double}}, {"IF($, $, $)", []Kind{Bool, Double, Int}},
		{"EXP(SIGN($))", []Kind{Int}}, {"LN($)", []Kind{Int}}, {"(- $)", []Kind{Double}},
		{"ATAN2($, $)", []Kind{Int, Int}},
	},
	Text: {
		{"CONCAT($, $)", []Kind{Text, Text}}, {"CONCAT($, '-', $)", []Kind{Text, Int}},
		{"CONCAT_WS(',', $, $)", []Kind{Text, Text}}, {"UPPER($)", []Kind{Text}}, {"LOWER($)", []Kind{Text}},
		{"SUBSTRING($, 2)", []Kind{Text}}, {"SUBSTRING($, $, 2)", []Kind{Text, Int}},
		{"LEFT($, 2)", []Kind{Text}}, {"RIGHT($, 1)", []Kind{Text}}, {"TRIM($)", []Kind{Text}},
		{"TRIM(BOTH 'o' FROM $)", []Kind{Text}}, {"LPAD($, 5, '*')", []Kind{Text}},
		{"REPLACE($, 'o', 'u')", []Kind{Text}}, {"REVERSE($)", []Kind{Text}},
		{"COALESCE($, $)", []Kind{Text, Text}}, {"IF($, $, $)", []Kind{Bool, Text, Text}},
		{"CASE WHEN $ THEN $ WHEN $ THEN $ END", []Kind{Bool, Text, Bool, Text}},
		{"NULLIF($, $)", []Kind{Text, Text}}, {"CAST($ AS CHAR)", []Kind{Int}},
		{"CAST($ AS CHAR)", []Kind{Decimal}}, {"CAST($ AS CHAR)", []Kind{Date}},
		{"CAST($ AS CHAR)", []Kind{Datetime}}, {"CAST($ AS CHAR)", []Kind{Time}}, {"HEX($)", []Kind{Text}},
		{"REPEAT($, 2)", []Kind{Text}}, {"INSERT($, 2, 1, 'q')", []Kind{Text}},
		{"DATE_FORMAT($, '%Y/%m/%d')", []Kind{Date}}, {"DATE_FORMAT($, '%H:%i:%s.%f %W')", []Kind{Datetime}},
		{"SUBSTRING_INDEX($, '-', 1)", []Kind{Text}}, {"MONTHNAME($)", []Kind{Date}},
		{"GREATEST($, $)", []Kind{Text, Text}}, {"ELT($, $, $)", []Kind{Int, Text, Text}},
		{"MD5($)", []Kind{Text}}, {"LTRIM($)", []Kind{Text}}, {"CONV($, 10, 16)", []Kind{Int}},
		{"BIN($)", []Kind{Int}},
	},
	Date: {
		{"($ + INTERVAL 1 DAY)", []Kind{Date}}, {"($ - INTERVAL $ DAY)", []Kind{Date, Bool}},
		{"DATE_ADD($, INTERVAL 1 MONTH)", []Kind{Date}}, {"DATE($)", []Kind{Datetime}},
		{"LAST_DAY($)", []Kind{Date}}, {"COALESCE($, $)", []Kind{Date, Date}},
		{"IF($, $, $)", []Kind{Bool, Date, Date}}, {"CAST($ AS DATE)", []Kind{Datetime}},
		{"GREATEST($, $)", []Kind{Date, Date}}, {"MAKEDATE(2024, $)", []Kind{Bool}},
		{"NULLIF($, $)", []Kind{Date, Date}},
	},
	Datetime: {
		{"($ + INTERVAL 90 MINUTE)", []Kind{Datetime}}, {"($ - INTERVAL 1 SECOND)", []Kind{Datetime}},
		{"($ + INTERVAL 1.5 SECOND)", []Kind{Datetime}},
		{"DATE_ADD($, INTERVAL '1:1' HOUR_MINUTE)", []Kind{Datetime}}, {"CAST($ AS DATETIME)", []Kind{Date}},
		{"TIMESTAMP($)", []Kind{Date}}, {"COALESCE($, $)", []Kind{Datetime, Datetime}},
		{"IF($, $, $)", []Kind{Bool, Datetime, Datetime}}, {"($ + INTERVAL 1 HOUR)", []Kind{Date}},
		{"LEAST($, $)", []Kind{Datetime, Datetime}}, {"TIMESTAMP($, $)", []Kind{Date, Time}},
	},
	Time: {
		{"TIME($)", []Kind{Datetime}}, {"SEC_TO_TIME($ * 61)", []Kind{Bool}},
		{"COALESCE($, $)", []Kind{Time, Time}}, {"CAST($ AS TIME)", []Kind{Datetime}},
		{"TIMEDIFF($, $)", []Kind{Time, Time}}, {"ADDTIME($, '00:30:00')", []Kind{Time}},
		{"MAKETIME(1, $, 3)", []Kind{Bool}},
	},
	Bool: {
		{"($ AND $)", []Kind{Bool, Bool}}, {"($ AND $)", []Kind{Bool, Bool}}, {"($ OR $)", []Kind{Bool, Bool}},
		{"($ OR $)", []Kind{Bool, Bool}}, {"($ XOR $)", []Kind{Bool, Bool}}, {"(NOT $)", []Kind{Bool}},
		{"($ IS TRUE)", []Kind{Bool}}, {"($ IS NOT TRUE)", []Kind{Bool}}, {"($ IS UNKNOWN)", []Kind{Bool}},
		{"($ IS FALSE)", []Kind{Bool}}, {"($ IS NULL)", []Kind{Int}}, {"($ IS NOT NULL)", []Kind{Text}},
		{"($ IS NULL)", []Kind{Date}}, {"($ IS NOT NULL)", []Kind{Decimal}}, {"($ = $)", []Kind{Int, Int}},
		{"($ = $)", []Kind{Int, Int}}, {"($ < $)", []Kind{Int, Int}}, {"($ >= $)", []Kind{Int, Int}},
		{"($ <> $)", []Kind{Int, Int}}, {"($ <=> $)", []Kind{Int, Int}},
		{"($ BETWEEN $ AND $)", []Kind{Int, Int, Int}}, {"($ IN ($, $, $))", []Kind{Int, Int, Int, Int}},
		{"($ NOT IN ($, $))", []Kind{Int, Int, Int}}, {"($ = $)", []Kind{Text, Text}},
		{"($ < $)", []Kind{Text, Text}}, {"($ <> $)", []Kind{Text, Text}}, {"($ <=> $)", []Kind{Text, Text}},
		{"($ IN ($, $))", []Kind{Text, Text, Text}}, {"($ NOT IN ($, $))", []Kind{Text, Text, Text}},
		{"($ BETWEEN $ AND $)", []Kind{Text, Text, Text}}, {"($ LIKE 'o%')", []Kind{Text}},
		{"($ LIKE '%e')", []Kind{Text}}, {"($ LIKE 't_o')", []Kind{Text}}, {"($ NOT LIKE 'a%c')", []Kind{Text}},
		{"($ LIKE 'b\\_c')", []Kind{Text}}, {"($ LIKE 'b\\%%')", []Kind{Text}},
		{"($ LIKE 'b|_c' ESCAPE '|')", []Kind{Text}}, {"($ LIKE $)", []Kind{Text, Text}},
		{"($ REGEXP '^[a-c]')", []Kind{Text}}, {"($ = $)", []Kind{Decimal, Decimal}},
		{"($ < $)", []Kind{Decimal, Int}}, {"($ BETWEEN $ AND $)", []Kind{Decimal, Int, Decimal}},
		{"($ IN ($, $))", []Kind{Decimal, Decimal, Int}}, {"($ > $)", []Kind{Double, Int}},
		{"($ = $)", []Kind{Double, Int}}, {"($ = $)", []Kind{Date, Date}}, {"($ < $)", []Kind{Date, Date}},
		{"($ >= $)", []Kind{Date, Datetime}}, {"($ IN ($, $))", []Kind{Date, Date, Date}},
		{"($ = $)", []Kind{Datetime, Datetime}}, {"($ > $)", []Kind{Datetime, Datetime}},
		{"($ < $)", []Kind{Time, Time}}, {"($ = $)", []Kind{Time, Time}},
		{"($ BETWEEN $ AND $)", []Kind{Date, Date, Datetime}},
		{"(($, $) = ($, $))", []Kind{Int, Int, Int, Int}},
		{"(($, $) IN (($, $), ($, $)))", []Kind{Int, Text, Int, Text, Int, Text}},
		{"(($, $) < ($, $))", []Kind{Int, Int, Int, Int}}, {"($ = $)", []Kind{Int, Text}},
		{"($ < $)", []Kind{Text, Int}}, {"($ = '2024-01-31')", []Kind{Date}},
		{"($ < '2024-02-01 10:00:00')", []Kind{Datetime}},
	},
}

// literals are constants of each kind.
var literals = map[Kind][]string{
	Int:     {"0", "1", "2", "3", "-1", "5", "NULL"},
	Decimal: {"1.5", "-3.10", "0.0", "2.250", "0.01", "NULL"},
	Double:  {"1.5e0", "0e0", "-2.5e0"},
	Text:    append([]string{"NULL"}, words[:12]...), Date: {"DATE'2024-01-31'", "DATE'2024-02-29'", "DATE'1999-12-31'"},
	Datetime: {"TIMESTAMP'2024-01-31 10:11:12'", "TIMESTAMP'2024-02-29 23:59:59'"},
	Time:     {"TIME'10:00:00'", "TIME'00:00:01'"},
	Bool:     {"TRUE", "FALSE", "NULL"},
}

// aggregates of each kind of value.
var aggregates = map[Kind][]form{
	Int: {
		{"COUNT(*)", nil}, {"COUNT($)", []Kind{Int}}, {"COUNT($)", []Kind{Text}},
		{"COUNT(DISTINCT $)", []Kind{Int}}, {"COUNT(DISTINCT $)", []Kind{Text}},
		{"COUNT(DISTINCT $, $)", []Kind{Int, Text}}, {"MIN($)", []Kind{Int}}, {"MAX($)", []Kind{Int}},
		{"BIT_OR($)", []Kind{Int}}, {"BIT_AND($)", []Kind{Int}}, {"BIT_XOR($)", []Kind{Int}},
		{"COUNT($)", []Kind{Date}},
	},
	Decimal: {
		{"SUM($)", []Kind{Int}}, {"SUM($)", []Kind{Decimal}}, {"AVG($)", []Kind{Int}},
		{"AVG($)", []Kind{Decimal}}, {"SUM(DISTINCT $)", []Kind{Int}}, {"AVG(DISTINCT $)", []Kind{Decimal}},
		{"MIN($)", []Kind{Decimal}}, {"MAX($)", []Kind{Decimal}},
	},
	Double: {
		{"SUM($)", []Kind{Double}}, {"AVG($)", []Kind{Double}}, {"STDDEV_POP($)", []Kind{Int}},
		{"VAR_SAMP($)", []Kind{Int}}, {"MAX($)", []Kind{Double}}, {"VARIANCE($)", []Kind{Decimal}},
	},
	Text: {
		{"GROUP_CONCAT(DISTINCT $ ORDER BY 1)", []Kind{Int}}, {"MIN($)", []Kind{Text}},
		{"MAX($)", []Kind{Text}},
	},
	Date:     {{"MIN($)", []Kind{Date}}, {"MAX($)", []Kind{Date}}},
	Datetime: {{"MAX($)", []Kind{Datetime}}, {"MIN($)", []Kind{Datetime}}},
	Time:     {{"MIN($)", []Kind{Time}}},
}

// windows are functions over the frame of a window; ranked ones want a total order.
var windows = []struct {
	kind   Kind
	form   form
	ranked bool
}{
	{Int, form{"ROW_NUMBER()", nil}, true}, {Int, form{"RANK()", nil}, false},
	{Int, form{"DENSE_RANK()", nil}, false}, {Decimal, form{"SUM($)", []Kind{Int}}, false},
	{Decimal, form{"AVG($)", []Kind{Decimal}}, false}, {Int, form{"COUNT($)", []Kind{Text}}, false},
	{Int, form{"MAX($)", []Kind{Int}}, false}, {Date, form{"MIN($)", []Kind{Date}}, false},
	{Int, form{"LAG($, 1)", []Kind{Int}}, true}, {Int, form{"LEAD($, 1, -9)", []Kind{Int}}, true},
	{Int, form{"FIRST_VALUE($)", []Kind{Int}}, true}, {Int, form{"LAST_VALUE($)", []Kind{Int}}, true},
	{Int, form{"NTILE(3)", nil}, true}, {Int, form{"NTH_VALUE($, 2)", []Kind{Int}}, true},
	{Double, form{"PERCENT_RANK()", nil}, false}, {Double, form{"CUME_DIST()", nil}, false},
	{Int, form{"COUNT(*)", nil}, false},
}
