package catalog

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pingcap/tidb/pkg/parser"
	"github.com/pingcap/tidb/pkg/parser/ast"
	"github.com/pingcap/tidb/pkg/parser/mysql"
	"github.com/pingcap/tidb/pkg/parser/terror"
	_ "github.com/pingcap/tidb/pkg/parser/test_driver" // literals: without it the parser panics on the first
)

// DefaultSQLMode is the SQL mode that TiDB starts with.
const DefaultSQLMode = 1436549152

// Clustering is which primary keys become the keys of their rows, unless a
// table says so itself.
type Clustering uint8

// The settings of tidb_enable_clustered_index.
const (
	ClusteredOn      Clustering = iota
	ClusteredIntOnly            // keys of one integer column
	ClusteredOff
)

// covers tells whether a primary key is clustered.
func (c Clustering) covers(tp ast.PrimaryKeyType, integer bool) bool {
	switch tp {
	case ast.PrimaryKeyTypeClustered:
		return true
	case ast.PrimaryKeyTypeNonClustered:
		return false
	}
	return c == ClusteredOn || c == ClusteredIntOnly && integer
}

// Session is what of a client's session decides how its DDL is read.
type Session struct {
	DB        string
	SQLMode   uint64 // DefaultSQLMode unless the client set another
	Charset   string // of the connection, utf8mb4 where empty
	Collation string // of the connection, that charset's default where empty
	Zone      *time.Location
	Now       time.Time // what current_timestamp is in a DEFAULT of ADD COLUMN

	// Clustered is tidb_enable_clustered_index.
	Clustered Clustering
	// User is who views are defined by.
	User UserIdentity
	// BDRRole and CDCWriteSource are copied into jobs.
	BDRRole        string
	CDCWriteSource uint64
	// ConnectionID and TraceID are copied into jobs.
	ConnectionID uint64
	TraceID      []byte
}

// withDefaults fills what the caller left out.
func (s Session) withDefaults() Session {
	if s.Charset == "" {
		s.Charset = mysql.UTF8MB4Charset
	}
	if s.User == (UserIdentity{}) {
		s.User = defaultUser()
	}
	if s.Zone == nil {
		s.Zone = time.UTC
	}
	return s
}

// parse reads the statements in a text. TiDB's parser panics on some input:
// that becomes an error with the text in it.
func parse(sql string, s Session) (stmts []ast.StmtNode, err error) {
	defer func() {
		if p := recover(); p != nil {
			stmts, err = nil, fmt.Errorf("catalog: the parser gave up (%v) on: %s", p, sql)
		}
	}()
	p := parser.New()
	p.SetSQLMode(mysql.SQLMode(s.SQLMode))
	stmts, _, err = p.ParseSQL(sql, parser.CharsetConnection(s.Charset), parser.CollationConnection(s.Collation))
	if err != nil {
		return nil, parseError(err)
	}
	return stmts, nil
}

// parseError is the refusal of a text that the parser does not read.
func parseError(err error) error {
	if known, ok := errors.AsType[*terror.Error](err); ok && known.Code() != 0 {
		e := terror.ToSQLError(known)
		return &Error{Code: int(e.Code), Message: e.Message}
	}
	return refuse(errParse, "You have an error in your SQL syntax; %s", strings.TrimSpace(err.Error()))
}

// strict tells whether a value that does not fit is an error.
func (p *planner) strict() bool {
	return p.session.has(mysql.ModeStrictTransTables) || p.session.has(mysql.ModeStrictAllTables)
}

// has tells whether a flag of the SQL mode is set.
func (s *Session) has(mode mysql.SQLMode) bool { return mysql.SQLMode(s.SQLMode)&mode != 0 }

// Error is a statement that TiDB would have refused, or a job that failed.
type Error struct {
	Code    int // MySQL's error number
	Message string
}

// Error is the text of the error.
func (e *Error) Error() string { return fmt.Sprintf("catalog: error %d: %s", e.Code, e.Message) }

func refuse(code int, format string, args ...any) error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}

// MySQL's numbers of what a statement is refused for.
const (
	errDBExists        = 1007
	errDBNotExists     = 1008
	errNoDB            = 1046
	errBadDB           = 1049
	errTableExists     = 1050
	errBadTable        = 1051
	errBadField        = 1054
	errDupColumn       = 1060
	errDupKeyName      = 1061
	errDupEntry        = 1062
	errParse           = 1064
	errBadDefault      = 1067
	errMultiplePriKey  = 1068
	errKeyColumn       = 1072
	errCannotDropAll   = 1090
	errCannotDropKey   = 1091
	errUnknownCharset  = 1115
	errNoSuchTable     = 1146
	errUnknownCollate  = 1273
	errInvalidOnUpdate = 1294
	errWrongObject     = 1347
	errPartitionField  = 1488
	errPartitionDup    = 1517
	errNoPartition     = 1505
	errDropPartition   = 1507
	errDropLastPart    = 1508
	errUnknownPart     = 1735
	errUnsupported     = 8200
)

// fold is the form in which TiDB compares names.
func fold(s string) string { return strings.ToLower(s) }
