package catalog

import (
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/pingcap/tidb/pkg/parser/ast"

	"github.com/sluice-cdc/sluice/tso"
)

// What a cluster is set up with.
const (
	mysqlDB          = 1 // id of the database of system tables
	testDB           = 2
	bootstrapVersion = 254
	ddlTableVersion  = 4
)

// systemTables are those through which DDL jobs go, with their fixed ids.
var systemTables = []struct {
	id  int64
	sql string
}{
	{281474976710654, "create table tidb_ddl_job (job_id bigint not null, reorg int, schema_ids text(65535), table_ids text(65535), job_meta longblob, type int, processing int, primary key(job_id))"},
	{281474976710653, "create table tidb_ddl_reorg (job_id bigint not null, ele_id bigint, ele_type blob, start_key blob, end_key blob, physical_id bigint, reorg_meta longblob, unique key(job_id, ele_id, ele_type(20)))"},
	{281474976710652, "create table tidb_ddl_history (job_id bigint not null, job_meta longblob, db_name char(64), table_name char(64), schema_ids text(65535), table_ids text(65535), create_time datetime, primary key(job_id))"},
	{281474976710651, "create table tidb_mdl_info (job_id bigint not null primary key, version bigint not null, table_ids text(65535), owner_id varchar(64) not null default '')"},
}

// Bootstrap is the metadata of a new cluster as of at: the system tables that
// DDL needs, and an empty database test. The keys are to be put into the store.
func Bootstrap(at tso.TS) (*Catalog, []KV, error) {
	c := New()
	w := &work{c: c, j: &Job{}, start: uint64(at), puts: map[string][]byte{}, written: map[string]*TableInfo{}}
	mysql := &DBInfo{ID: mysqlDB, Name: MakeName("mysql"), Charset: "utf8mb4", Collate: "utf8mb4_bin", State: StatePublic}
	test := &DBInfo{ID: testDB, Name: MakeName("test"), Charset: "utf8mb4", Collate: "utf8mb4_bin", State: StatePublic}
	w.putDB(mysql)
	w.putDB(test)
	for _, s := range systemTables {
		t, err := systemTable(c, mysql, s.sql)
		if err != nil {
			return nil, nil, err
		}
		t.ID, t.State, t.UpdateTS = s.id, StatePublic, uint64(at)
		w.putTable(mysqlDB, t)
	}
	for key, n := range map[string]int64{
		"NextGlobalID": testDB, "SchemaVersionKey": 1, "BootstrapKey": bootstrapVersion, "DDLTableVersion": ddlTableVersion, "metadataLock": 1,
	} {
		w.put(key, []byte(strconv.FormatInt(n, 10)))
	}
	w.putJSON("Diff:1", &SchemaDiff{Version: 1, Type: ActionCreateSchema, SchemaID: testDB})
	var out []KV
	for _, key := range slices.Sorted(maps.Keys(w.puts)) {
		kv := KV{rawKey(key), w.puts[key]}
		if err := c.Apply(kv, uint64(at)); err != nil {
			return nil, nil, err
		}
		out = append(out, kv)
	}
	return c, out, nil
}

func systemTable(c *Catalog, db *DBInfo, sql string) (*TableInfo, error) {
	s := Session{DB: db.Name.O, SQLMode: DefaultSQLMode}.withDefaults()
	stmts, err := parse(sql, s)
	if err != nil {
		return nil, err
	}
	create, ok := stmts[0].(*ast.CreateTableStmt)
	if !ok {
		return nil, fmt.Errorf("catalog: no table: %s", sql)
	}
	p := &planner{c: c, session: s, db: db.Name.O}
	return p.tableOf(create, db)
}
