package api

import (
	"net/http"
	"slices"
)

const (
	get  = http.MethodGet
	post = http.MethodPost
	put  = http.MethodPut
	del  = http.MethodDelete
)

// routes is the API.
func routes() []route {
	all := slices.Concat(nodeRoutes(), feedRoutes(), unsafeRoutes(), firstRoutes(), lackingRoutes())
	return append(all, route{method: get, path: "/api/v2/openapi.json", summary: "this document", out: document{},
		serve: func(c *call) (any, error) { return document{"application/json", c.OpenAPI()}, nil }})
}

func nodeRoutes() []route {
	var out []route
	for _, path := range []string{"/status", "/api/v2/status", "/api/v1/status"} {
		out = append(out, route{method: get, path: path, summary: "what this capture is", out: ServerStatus{}, serve: (*call).status})
	}
	return append(out,
		route{method: get, path: "/api/v2/health", summary: "200 while changefeeds can be replicated", out: Empty{}, serve: (*call).health},
		route{method: get, path: "/debug/info", summary: "the node and its changefeeds, for a person", out: document{}, serve: (*call).info},
		route{method: post, path: "/api/v2/log", summary: "say more or less in the log", in: LogLevel{}, out: Empty{}, guarded: true, serve: (*call).logLevel},
		route{method: get, path: "/api/v2/captures", summary: "the members of the cluster", out: List[Capture]{}, serve: (*call).listCaptures},
		route{method: post, path: "/api/v2/captures/{capture_id}/drain", summary: "take a capture's tables away", out: Drained{},
			status: http.StatusAccepted, owner: true, guarded: true, serve: (*call).drain},
		route{method: del, path: "/api/v2/captures/{capture_id}/drain", summary: "let a capture have tables again", out: Empty{}, owner: true, guarded: true, serve: (*call).undrain},
		route{method: post, path: "/api/v2/owner/resign", summary: "let another capture own the cluster", out: Empty{}, owner: true, guarded: true, serve: (*call).resign},
		route{method: post, path: "/api/v2/tso", summary: "the upstream's present", in: PDConfig{}, empty: true, out: Timestamp{}, serve: (*call).tso},
		route{method: get, path: "/api/v2/processors", summary: "changefeeds by capture", out: List[Processor]{}, owner: true, serve: (*call).listProcessors},
		route{method: get, path: "/api/v2/processors/{changefeed_id}/{capture_id}", summary: "what a capture does for a changefeed",
			out: ProcessorDetail{}, owner: true, serve: (*call).processor},
	)
}

func feedRoutes() []route {
	const one = "/api/v2/changefeeds/{changefeed_id}"
	mode := []param{{"mode", "0: the tables that rows are written of"}}
	return []route{
		{method: get, path: "/api/v2/changefeeds", summary: "all changefeeds",
			query: []param{{"state", "only of this state; all shows finished and removed ones too"}},
			out:   List[FeedItem]{}, owner: true, serve: (*call).listFeeds},
		{method: post, path: "/api/v2/changefeeds", summary: "create a changefeed", in: CreateFeed{}, out: FeedInfo{}, owner: true, guarded: true, serve: (*call).createFeed},
		{method: post, path: "/api/v2/verify_table", summary: "what a changefeed would replicate", in: CreateFeed{}, out: Tables{}, owner: true, serve: (*call).verify},
		{method: post, path: "/api/v2/get_all_tables", summary: "what a changefeed would replicate, without asking the sink",
			in: CreateFeed{}, out: Tables{}, owner: true, serve: (*call).verify},
		{method: get, path: one, summary: "all of a changefeed", out: FeedInfo{}, owner: true, serve: (*call).getFeed},
		{method: put, path: one, summary: "change a changefeed that stands", in: UpdateFeed{}, out: FeedInfo{}, owner: true, guarded: true, serve: (*call).updateFeed},
		{method: del, path: one, summary: "remove a changefeed; one that is not there is removed already", out: Empty{}, owner: true, guarded: true, serve: (*call).removeFeed},
		{method: post, path: one + "/pause", summary: "stop a changefeed", out: Empty{}, owner: true, guarded: true, serve: (*call).pauseFeed},
		{method: post, path: one + "/resume", summary: "go on with a changefeed that stands", in: ResumeFeed{}, empty: true, out: Empty{}, owner: true, guarded: true, serve: (*call).resumeFeed},
		{method: post, path: one + "/move_table", summary: "move a table to another capture", query: []param{
			{"tableID", "the table's number; a partition has one of its own"}, {"targetNodeID", "the capture that is to have it"},
			{"wait", "true: answer when it is there"}, {"mode", "0: the tables that rows are written of"}},
			out: Empty{}, owner: true, guarded: true, serve: (*call).moveTable},
		{method: get, path: one + "/meta_info", summary: "all of a changefeed", out: FeedInfo{}, owner: true, serve: (*call).getFeed},
		{method: get, path: one + "/status", summary: "a changefeed in short", out: FeedStatus{}, owner: true, serve: (*call).feedStatus},
		{method: get, path: one + "/synced", summary: "has downstream all that upstream had?", out: Synced{}, owner: true, serve: (*call).synced},
		{method: get, path: one + "/history", summary: "what has moved of a changefeed that runs, as its owner keeps it", out: FeedHistory{}, owner: true, serve: (*call).feedHistory},
		{method: get, path: one + "/history/{capture_id}", summary: "what has moved of a capture's share of a changefeed",
			out: CaptureHistory{}, named: true, serve: (*call).captureHistory},
		{method: get, path: one + "/tables", summary: "tables by capture", query: mode, out: List[NodeTables]{}, owner: true, serve: (*call).feedTables},
	}
}

func unsafeRoutes() []route {
	return []route{
		{method: get, path: "/api/v2/unsafe/metadata", summary: "every key of the metadata", out: []Pair{}, guarded: true, serve: (*call).metadata},
		{method: post, path: "/api/v2/unsafe/resolve_lock", summary: "end the locks of a region", in: ResolveLock{}, out: Empty{}, guarded: true, serve: (*call).resolveLock},
		{method: del, path: "/api/v2/unsafe/service_gc_safepoint", summary: "give up every hold on the upstream's garbage collection",
			in: PDConfig{}, empty: true, out: Empty{}, guarded: true, serve: (*call).releaseGC},
	}
}

// firstRoutes are version 1, as far as tools still use it.
func firstRoutes() []route {
	const one = "/api/v1/changefeeds/{changefeed_id}"
	accepted := http.StatusAccepted
	return []route{
		{method: get, path: "/api/v1/health", summary: "200 while changefeeds can be replicated", out: Empty{}, serve: (*call).health},
		{method: post, path: "/api/v1/log", summary: "say more or less in the log", in: LogLevel{}, out: Empty{}, guarded: true, serve: (*call).logLevel},
		{method: get, path: "/api/v1/captures", summary: "the members of the cluster", out: []Capture{}, serve: (*call).captureArray},
		{method: put, path: "/api/v1/captures/drain", summary: "take a capture's tables away", in: FirstDrain{}, out: Drained{},
			status: accepted, owner: true, guarded: true, serve: (*call).firstDrain},
		{method: post, path: "/api/v1/owner/resign", summary: "let another capture own the cluster", out: Empty{}, status: accepted, owner: true, guarded: true, serve: (*call).resign},
		{method: get, path: "/api/v1/processors", summary: "changefeeds by capture", out: []Processor{}, owner: true, serve: (*call).processorArray},
		{method: get, path: "/api/v1/processors/{changefeed_id}/{capture_id}", summary: "what a capture does for a changefeed",
			out: FirstProcessor{}, owner: true, serve: (*call).firstProcessor},
		{method: get, path: "/api/v1/changefeeds", summary: "all changefeeds", query: []param{{"state", "only of this state"}},
			out: []FirstItem{}, owner: true, serve: (*call).feedArray},
		{method: post, path: "/api/v1/changefeeds", summary: "create a changefeed", in: FirstCreate{}, out: Empty{}, status: accepted, owner: true, guarded: true, serve: (*call).firstCreate},
		{method: get, path: one, summary: "all of a changefeed", out: FirstFeed{}, owner: true, serve: (*call).firstFeed},
		{method: put, path: one, summary: "change a changefeed that stands", in: FirstUpdate{}, out: Empty{}, status: accepted, owner: true, guarded: true, serve: (*call).firstUpdate},
		{method: del, path: one, summary: "remove a changefeed", out: Empty{}, status: accepted, owner: true, guarded: true, serve: (*call).removeFeed},
		{method: post, path: one + "/pause", summary: "stop a changefeed", out: Empty{}, status: accepted, owner: true, guarded: true, serve: (*call).pauseFeed},
		{method: post, path: one + "/resume", summary: "go on with a changefeed that stands", out: Empty{}, status: accepted, owner: true, guarded: true, serve: (*call).resumeFeed},
		{method: post, path: one + "/tables/move_table", summary: "move a table to another capture", in: FirstMove{}, out: Empty{},
			status: accepted, owner: true, guarded: true, serve: (*call).firstMove},
		{method: post, path: one + "/tables/rebalance_table", summary: "even out now how many tables captures have", out: Empty{},
			status: accepted, owner: true, guarded: true, serve: (*call).rebalance},
	}
}

// lackingRoutes are TiCDC's paths that this release has nothing behind.
// docs/compatibility.md prints them.
func lackingRoutes() []route {
	const one = "/api/v2/changefeeds/{changefeed_id}"
	const whole = "large tables are cut, merged and spread by their load (scheduler.enable-table-across-nodes); move_table moves a table with all its parts"
	var out []route
	lack := func(method, path, why string) {
		out = append(out, route{method: method, path: path, summary: "not in this release", lacks: why})
	}
	for _, verb := range []string{"move_split_table", "split_table_by_region_count", "merge_table"} {
		lack(post, one+"/"+verb, whole)
	}
	lack(get, one+"/get_dispatcher_count", "there are no dispatchers; /tables lists the tables by capture")
	lack(post, "/api/v2/log/redact", "rows are not logged, but an error about one names its table, key, column and value, and so does the downstream's message")
	for _, method := range []string{get, post, del} {
		lack(method, "/debug/failpoints", "faults are injected by tests, from outside")
	}
	return out
}
