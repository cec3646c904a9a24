package region

import (
	"math/rand/v2"
	"time"
)

const (
	// The first wait is about a round trip to PD and back; the last is short
	// enough that a store that returns is used again within seconds.
	backoffMin = 50 * time.Millisecond
	backoffMax = 2 * time.Second
	// A busy store may ask for any time; ten minutes is the most that makes sense.
	busyMax = 10 * time.Minute
	// hintsMax is how many leader hints in a row are followed before PD is asked:
	// two stores that each name the other would go on for ever.
	hintsMax = 3
)

// jitter spreads retries: the wait after that many failures in a row, between
// half and all of backoffMin doubled each time, up to backoffMax.
func jitter(rng *rand.Rand, fails int) time.Duration {
	d := backoffMax
	if fails < 6 { // 50 ms << 6 is beyond backoffMax
		d = min(backoffMin<<fails, backoffMax)
	}
	return d/2 + time.Duration(rng.Int64N(int64(d/2)+1))
}
