package meta

import "time"

// wall is the wall's clock: it may be set, but does not stand still.
func wall() time.Duration { return time.Duration(time.Now().UnixNano()) }
