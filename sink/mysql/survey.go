package mysql

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluice-cdc/sluice/cdcerr"
	"github.com/sluice-cdc/sluice/event"
	"github.com/sluice-cdc/sluice/sink"
)

var _ sink.Surveyor = (*Sink)(nil)

// rowRights are what rows take, ddlRights what DDLs take beside.
var (
	rowRights = []string{"SELECT", "INSERT", "UPDATE", "DELETE"}
	ddlRights = []string{"CREATE", "DROP", "ALTER", "INDEX"}
)

// namedMost is how many things a note or an error names.
const namedMost = 10

// Survey implements sink.Surveyor: rights that rows need are an error where they are
// missing, rights that DDLs need and tables that are not there are notes. A server
// whose answers nobody knows is not asked.
func (s *Sink) Survey(ctx context.Context, tables []*event.Table) ([]string, error) {
	if s.Dialect().Kind == Other || len(tables) == 0 {
		return nil, nil
	}
	conn, err := s.session.use(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.ReadTimeout)
	defer cancel()
	schemas := make(map[string]bool)
	for _, t := range tables {
		schemas[t.Schema] = true
	}
	var notes []string
	g, err := readGrants(ctx, conn)
	if err != nil {
		return nil, cdcerr.MySQLQuery.Wrap(err, "%s: asking for the user's grants", s.cfg.String())
	}
	for _, schema := range slices.Sorted(maps.Keys(schemas)) {
		if lacking := g.lacking(schema, rowRights); len(lacking) > 0 {
			return nil, cdcerr.MySQLAccessDenied.New("%s: rows of database %s take %s, which the user lacks", s.cfg.String(), schema, strings.Join(lacking, ", "))
		}
		if lacking := g.lacking(schema, ddlRights); len(lacking) > 0 {
			notes = append(notes, fmt.Sprintf("DDLs of database %s may take %s, which the downstream's user lacks: the changefeed would fail at one", schema, strings.Join(lacking, ", ")))
		}
	}
	missing, err := missingTables(ctx, conn, tables)
	if err != nil {
		return nil, cdcerr.MySQLQuery.Wrap(err, "%s: looking for the tables", s.cfg.String())
	}
	if len(missing) > 0 {
		n := len(missing)
		if n > namedMost {
			missing = append(missing[:namedMost], "…")
		}
		notes = append(notes, fmt.Sprintf("%d of %d tables are not downstream, and the first row of one fails the changefeed: %s; make them there, or begin at a start-ts below their creation", n, len(tables), strings.Join(missing, ", ")))
	}
	return notes, nil
}

// suits tells whether this server may be a downstream at all.
func (s *Sink) suits() error {
	if d := s.Dialect(); s.cfg.BDR && d.Kind != TiDB {
		return cdcerr.ConfigInvalid.New("bdr-mode = true: %s is %s %s, which cannot mark what is written to it, so that it would come back; only TiDB can", s.cfg.String(), d.Kind, d.Text)
	}
	return nil
}

// missingTables are those that the downstream does not have, by name. Letter case
// does not count: of servers some keep it and some do not.
func missingTables(ctx context.Context, conn *sql.Conn, tables []*event.Table) (missing []string, err error) {
	there := make(map[string]map[string]bool)
	for _, t := range tables {
		schema := strings.ToLower(t.Schema)
		if there[schema] == nil {
			if there[schema], err = tablesOf(ctx, conn, t.Schema); err != nil {
				return nil, err
			}
		}
		if !there[schema][strings.ToLower(t.Name)] {
			missing = append(missing, t.FullName())
		}
	}
	return missing, nil
}

func tablesOf(ctx context.Context, conn *sql.Conn, schema string) (map[string]bool, error) {
	out := make(map[string]bool)
	return out, eachText(ctx, conn, "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = "+quoted(schema), func(name string) {
		out[strings.ToLower(name)] = true
	})
}

func eachText(ctx context.Context, conn *sql.Conn, query string, fn func(string)) error {
	rows, err := conn.QueryContext(ctx, query)
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		fn(text)
	}
	return rows.Err()
}

// grants are what a user may do. What cannot be told from them counts as allowed:
// the first statement will say.
type grants struct {
	unknown bool // there are roles, which allow who knows what
	on      []grant
}

// A grant is a set of rights on the databases of a pattern.
type grant struct {
	schema string
	rights string // ", " between and at both ends, in capitals
}

func readGrants(ctx context.Context, conn *sql.Conn) (*grants, error) {
	g := &grants{}
	if err := eachText(ctx, conn, "SHOW GRANTS FOR CURRENT_USER()", g.add); err != nil {
		return nil, err
	}
	// What MariaDB gives to all users it does not list for each; others know no such name.
	if err := eachText(ctx, conn, "SHOW GRANTS FOR PUBLIC", g.add); err != nil && (!isServerError(err) || isGone(err)) {
		return nil, err
	}
	return g, nil
}

// add reads one line: GRANT rights ON object TO …, or a role, which has no object.
// A right on one table or column counts for its database.
func (g *grants) add(line string) {
	rest, isGrant := strings.CutPrefix(line, "GRANT ")
	rights, rest, hasObject := strings.Cut(rest, " ON ")
	if !isGrant {
		return // SET DEFAULT ROLE, REVOKE
	}
	if !hasObject {
		g.unknown = true
		return
	}
	object, _, _ := strings.Cut(rest, " TO ")
	schema := schemaOf(strings.TrimPrefix(object, "TABLE "))
	g.on = append(g.on, grant{schema: schema, rights: ", " + strings.ToUpper(rights) + ", "})
}

// schemaOf is the database of a grant's object, `a.b`.`t` or *.*: what stands in
// quotes may have dots.
func schemaOf(object string) string {
	rest, isQuoted := strings.CutPrefix(object, "`")
	if !isQuoted {
		schema, _, _ := strings.Cut(object, ".")
		return schema
	}
	var b strings.Builder
	for {
		part, after, _ := strings.Cut(rest, "`")
		b.WriteString(part)
		if rest, isQuoted = strings.CutPrefix(after, "`"); !isQuoted {
			return b.String()
		}
		b.WriteByte('`')
	}
}

// lacking are those of the rights that nothing gives on a database.
func (g *grants) lacking(schema string, rights []string) (out []string) {
	if g.unknown {
		return nil
	}
	for _, right := range rights {
		if !slices.ContainsFunc(g.on, func(on grant) bool { return on.gives(schema, right) }) {
			out = append(out, right)
		}
	}
	return out
}

func (g grant) gives(schema, right string) bool {
	if g.schema != "*" && !likeName(g.schema, schema) {
		return false
	}
	return strings.HasPrefix(g.rights, ", ALL") || strings.Contains(g.rights, ", "+right+", ") || strings.Contains(g.rights, ", "+right+" (")
}

// likeName matches a database's name against the pattern of a grant: % and _ stand
// for what they stand for in LIKE, with \ before them for themselves.
func likeName(pattern, name string) bool { return likeRunes([]rune(pattern), []rune(name)) }

func likeRunes(pattern, name []rune) bool {
	for len(pattern) > 0 {
		c, any := pattern[0], pattern[0] == '_'
		pattern = pattern[1:]
		if c == '%' {
			for i := 0; i <= len(name); i++ {
				if likeRunes(pattern, name[i:]) {
					return true
				}
			}
			return false
		}
		if c == '\\' && len(pattern) > 0 {
			c, pattern = pattern[0], pattern[1:]
		}
		if len(name) == 0 || !any && !strings.EqualFold(string(name[0]), string(c)) {
			return false
		}
		name = name[1:]
	}
	return len(name) == 0
}
