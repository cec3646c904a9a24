package catalog

import (
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser/ast"
)

// timeFunction evaluates the functions over a date that bounds of partitions
// are made with.
func timeFunction(e ast.ExprNode) (int64, bool) {
	f, ok := e.(*ast.FuncCallExpr)
	if !ok || len(f.Args) != 1 {
		return 0, false
	}
	v, err := literal(f.Args[0])
	if err != nil {
		return 0, false
	}
	m, err := parseMoment(v.text)
	if err != nil {
		return 0, false
	}
	at := time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second, 0, time.UTC)
	switch f.FnName.L {
	case "to_days":
		return toDays(at), true
	case "to_seconds":
		return toDays(at)*86400 + int64(m.hour*3600+m.minute*60+m.second), true
	case "unix_timestamp":
		return at.Unix(), true
	case "year":
		return int64(m.year), true
	}
	return 0, false
}

// toDays counts from the year 0, as MySQL does.
func toDays(t time.Time) int64 {
	const epoch = 719528 // of 1970-01-01
	days := t.Unix() / 86400
	if t.Unix()%86400 < 0 {
		days--
	}
	return days + epoch
}

// intervals writes out the partitions of a PARTITION BY RANGE … INTERVAL, and
// puts them into the text of the query, as TiDB does.
func (p *planner) intervals(t *TableInfo, o *ast.PartitionOptions) error {
	in := o.Interval
	if in == nil {
		return nil
	}
	if in.NullPart || in.FirstRangeEnd == nil || in.LastRangeEnd == nil {
		return refuse(errUnsupported, "INTERVAL partitioning without FIRST and LAST PARTITION")
	}
	var column *FieldType
	if len(o.ColumnNames) == 1 {
		column = &t.column(o.ColumnNames[0].Name.L).Type
	}
	bounds, err := p.steps(column, in)
	if err != nil {
		return err
	}
	if in.MaxValPart {
		bounds = append(bounds, maxValue)
	}
	for _, b := range bounds {
		o.Definitions = append(o.Definitions, intervalPartition(b))
	}
	from := p.query
	if original := in.OriginalText(); original != "" {
		p.query = strings.Replace(from, original, "("+definitionText(bounds)+")", 1)
	}
	o.Interval = nil
	return nil
}

// steps are the upper bounds from the first to the last.
func (p *planner) steps(column *FieldType, in *ast.PartitionInterval) ([]string, error) {
	first, err := literal(*in.FirstRangeEnd)
	if err != nil {
		return nil, err
	}
	last, err := literal(*in.LastRangeEnd)
	if err != nil {
		return nil, err
	}
	step, err := literal(in.IntervalExpr.Expr)
	if err != nil {
		return nil, err
	}
	if column == nil || !column.isTime() {
		return countedSteps(first, last, step)
	}
	from, err := parseMoment(first.text)
	if err != nil {
		return nil, err
	}
	to, err := parseMoment(last.text)
	if err != nil {
		return nil, err
	}
	var n int
	if _, err := fmt.Sscan(step.text, &n); err != nil || n <= 0 {
		return nil, refuse(errUnsupported, "an interval of '%s'", step.text)
	}
	var out []string
	for i := 0; len(out) <= partitionsMax; i++ {
		at, ok := later(from, in.IntervalExpr.TimeUnit, n*i)
		if !ok {
			return nil, refuse(errUnsupported, "an interval of %s", in.IntervalExpr.TimeUnit)
		}
		if at.text(column) > to.text(column) {
			return out, nil
		}
		out = append(out, "'"+at.text(column)+"'")
	}
	return nil, checkPartitions(uint64(len(out)))
}

func countedSteps(first, last, step constant) ([]string, error) {
	var from, to, by int64
	if _, err := fmt.Sscan(first.text+" "+last.text+" "+step.text, &from, &to, &by); err != nil || by <= 0 {
		return nil, refuse(errUnsupported, "an interval of '%s'", step.text)
	}
	if err := checkPartitions(uint64(max(to-from, 0)/by) + 1); err != nil {
		return nil, err
	}
	var out []string
	for ; from <= to; from += by {
		out = append(out, fmt.Sprint(from))
	}
	return out, nil
}

// later is a moment n units on.
func later(m moment, unit ast.TimeUnitType, n int) (moment, bool) {
	at := time.Date(m.year, time.Month(m.month), m.day, m.hour, m.minute, m.second, m.micro*1000, time.UTC)
	switch unit {
	case ast.TimeUnitYear:
		at = at.AddDate(n, 0, 0)
	case ast.TimeUnitQuarter:
		at = at.AddDate(0, 3*n, 0)
	case ast.TimeUnitMonth:
		at = at.AddDate(0, n, 0)
	case ast.TimeUnitWeek:
		at = at.AddDate(0, 0, 7*n)
	case ast.TimeUnitDay:
		at = at.AddDate(0, 0, n)
	case ast.TimeUnitHour:
		at = at.Add(time.Duration(n) * time.Hour)
	case ast.TimeUnitMinute:
		at = at.Add(time.Duration(n) * time.Minute)
	case ast.TimeUnitSecond:
		at = at.Add(time.Duration(n) * time.Second)
	default:
		return moment{}, false
	}
	return momentOf(at), true
}

func intervalName(bound string) string { return "P_LT_" + strings.Trim(bound, "'") }

func intervalPartition(bound string) *ast.PartitionDefinition {
	var e ast.ExprNode = &ast.MaxValueExpr{}
	name := "P_" + maxValue
	if bound != maxValue {
		e = boundExpr(bound)
		name = intervalName(bound)
	}
	return &ast.PartitionDefinition{
		Name:   ast.NewCIStr(name),
		Clause: &ast.PartitionDefinitionClauseLessThan{Exprs: []ast.ExprNode{e}},
	}
}

// boundExpr is a bound as a literal.
func boundExpr(bound string) ast.ExprNode {
	if text, ok := strings.CutPrefix(bound, "'"); ok {
		return ast.NewValueExpr(strings.TrimSuffix(text, "'"), "", "")
	}
	var n int64
	if _, err := fmt.Sscan(bound, &n); err != nil {
		return ast.NewValueExpr(bound, "", "")
	}
	return ast.NewValueExpr(n, "", "")
}

// definitionText writes partitions as SQL.
func definitionText(bounds []string) string {
	var out []string
	for _, b := range bounds {
		if b == maxValue {
			out = append(out, "PARTITION `P_MAXVALUE` VALUES LESS THAN (MAXVALUE)")
			continue
		}
		out = append(out, fmt.Sprintf("PARTITION `%s` VALUES LESS THAN (%s)", intervalName(b), b))
	}
	return strings.Join(out, ",\n ")
}

// interval is how far apart the last two bounds of a table are.
func (t *TableInfo) interval() (*ast.PartitionInterval, *FieldType, error) {
	p := t.Partition
	n := len(p.Definitions)
	none := refuse(errUnsupported, "LAST PARTITION of a table that was not made with INTERVAL")
	if n < 2 || len(p.Definitions[n-1].LessThan) != 1 || p.Definitions[n-1].LessThan[0] == maxValue {
		return nil, nil, none
	}
	before, last := strings.Trim(p.Definitions[n-2].LessThan[0], "'"), strings.Trim(p.Definitions[n-1].LessThan[0], "'")
	var column *FieldType
	if len(p.Columns) == 1 {
		column = &t.column(p.Columns[0].L).Type
	}
	if column == nil || !column.isTime() {
		var x, y int64
		if _, err := fmt.Sscan(before+" "+last, &x, &y); err != nil {
			return nil, nil, none
		}
		return &ast.PartitionInterval{IntervalExpr: ast.PartitionIntervalExpr{Expr: boundExpr(fmt.Sprint(y - x))}}, column, nil
	}
	x, err := parseMoment(before)
	if err != nil {
		return nil, nil, err
	}
	y, err := parseMoment(last)
	if err != nil {
		return nil, nil, err
	}
	count, unit := (y.year-x.year)*12+y.month-x.month, ast.TimeUnitMonth
	if again, _ := later(x, unit, count); count == 0 || again != y {
		from := time.Date(x.year, time.Month(x.month), x.day, x.hour, x.minute, x.second, 0, time.UTC)
		to := time.Date(y.year, time.Month(y.month), y.day, y.hour, y.minute, y.second, 0, time.UTC)
		count, unit = int(to.Sub(from)/time.Second), ast.TimeUnitSecond
	}
	return &ast.PartitionInterval{IntervalExpr: ast.PartitionIntervalExpr{Expr: boundExpr(fmt.Sprint(count)), TimeUnit: unit}}, column, nil
}
