package main

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
)

// plausible says what a sum over all series of a family must be once
// mixedTraffic has come by, and Redis has been away.
type plausible struct{ least, most float64 }

var (
	some    = plausible{1, 1e9}
	nothing = plausible{0, 0}
	either  = plausible{0, 1e9}
	one     = plausible{1, 1}
	soon    = plausible{1e-6, 600} // seconds
	epoch   = plausible{1.6e9, 1e11}
)

// expectations are of every family that docs/metrics.md lists; of histograms,
// the count.
var expectations = map[string]plausible{
	"mete_answer_bytes_total": {1000, 1e7}, "mete_answers_cut_total": {2, 2}, "mete_attempts_total": {15, 30},
	"mete_body_bytes": nothing, "mete_build_info": one, "mete_caller_limited_total": {1, 3}, "mete_caller_requests_total": {15, 40},
	"mete_caller_tokens_total": some, "mete_client_connections": some, "mete_connections_refused_total": nothing, "mete_client_left_total": one,
	"mete_config_loaded_timestamp_seconds": epoch, "mete_config_reloads_total": nothing, "mete_consul_registered": one,
	"mete_errors_total": {11, 20}, "mete_http_requests_total": {25, 60}, "mete_in_flight": nothing,
	"mete_inter_token_latency_seconds": some, "mete_limits_admitted_total": {15, 40}, "mete_limits_gateways": {1, 2},
	"mete_limits_overshoot_tokens_total": either, "mete_limits_refunded_total": {1, 5}, "mete_limits_refused_locally_total": {1, 3},
	"mete_limits_refused_total": {1, 3}, "mete_limits_reserved_tokens_total": some, "mete_limits_settlements_dropped_total": nothing,
	"mete_limits_settlements_pending": either, "mete_limits_used_tokens_total": some, "mete_model_predicted_ttft_seconds": soon,
	"mete_model_queue_depth": nothing, "mete_model_utilisation": {0, 5}, "mete_overhead_seconds": {13, 40}, "mete_panics_total": nothing,
	"mete_pool_panic": {0, 2}, "mete_pool_queue_length": nothing, "mete_pool_replicas": {6, 7}, "mete_pool_retry_budget": some,
	"mete_pool_traffic_share": {0, 4}, "mete_queue_wait_seconds": {15, 40}, "mete_redis_call_duration_seconds": some,
	"mete_redis_connection_timeouts_total": either, "mete_redis_connection_waits_total": either, "mete_redis_connections": either,
	"mete_redis_errors_total": some, "mete_redis_up": nothing, "mete_refusals_total": {10, 20}, "mete_replica_attempts_total": {15, 40},
	"mete_replica_breaker": {6, 7}, "mete_replica_capacity": some, "mete_replica_check_age_seconds": {0, 60}, "mete_replica_check_fails": some,
	"mete_replica_in_flight": nothing, "mete_replica_kv_usage": {0, 6}, "mete_replica_prefill_tokens": nothing, "mete_replica_running": either,
	"mete_replica_score": some, "mete_replica_signal_age_seconds": {0, 60}, "mete_replica_state": {6, 7}, "mete_replica_waiting": either,
	"mete_request_duration_seconds": {15, 40}, "mete_requests_total": {15, 40}, "mete_resends_total": either, "mete_retries_total": {1, 6},
	"mete_source_changed_timestamp_seconds": epoch, "mete_source_replicas": {1, 2}, "mete_source_up": one,
	"mete_stage_duration_seconds": {90, 250}, "mete_streams": nothing, "mete_time_per_output_token_seconds": {6, 20},
	"mete_time_to_first_token_seconds": {6, 20}, "mete_tokens_total": some, "mete_trace_spans_total": nothing, "mete_unwatched_total": nothing,
}

// TestEveryDocumentedMetricIsThereAndPlausible starts everything, lets all that
// can happen to a request happen, takes Redis away, and reads /metrics.
func TestEveryDocumentedMetricIsThereAndPlausible(t *testing.T) {
	s := startSystem(t, nil)
	s.mixedTraffic()
	s.eventually(func() bool { // what replicas say of their load is read once a second
		return s.scrape(0)["mete_replica_running"] != nil && s.scrape(1)["mete_replica_running"] != nil
	})
	s.store.Kill()
	for i := range s.gateways {
		s.eventually(func() bool {
			status, _ := s.ask(i, "POST", chatPath, "sk-mete-"+strings.Repeat("e", 40), chatOf("mete"))
			return status == 503 && sumOf(s.scrape(i)["mete_redis_up"]) == 0
		})
		s.want(200, i, "POST", chatPath, s.open, chatOf("mete"))
	}
	for i, g := range s.gateways {
		families := s.scrape(i)
		var documented []string
		for _, f := range g.book.Families() {
			documented = append(documented, f.Name)
			want, ok := expectations[f.Name]
			if !ok {
				t.Errorf("%s: say what is plausible", f.Name)
			}
			if got := sumOf(families[f.Name]); families[f.Name] == nil || !(got >= want.least && got <= want.most) {
				t.Errorf("gateway %d: %s is %v, want %v to %v: %.500v", i, f.Name, got, want.least, want.most, families[f.Name].GetMetric())
			}
			if kind := strings.ToLower(families[f.Name].GetType().String()); kind != f.Type {
				t.Errorf("%s is a %s, the list says %s", f.Name, kind, f.Type)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(families)) {
			if strings.HasPrefix(name, "mete_") && !slices.Contains(documented, name) {
				t.Errorf("%s is not in the list", name)
			}
		}
		s.wantFaults(i, families["mete_errors_total"])
		s.wantParts(i, families)
	}
}

// wantFaults expects errors of every fault but the gateway's own.
func (s *system) wantFaults(gateway int, errors *dto.MetricFamily) {
	for _, fault := range []string{"caller", "limit", "replica", "store"} {
		if total(errors, "fault", fault) == 0 {
			s.Errorf("gateway %d counted no error of the %s", gateway, fault)
		}
	}
	if n := total(errors, "fault", "gateway"); n != 0 {
		s.Errorf("gateway %d counted %v errors of its own", gateway, n)
	}
}

// wantParts expects something under each of these labels, where the sum over all
// would not show that one is missing.
func (s *system) wantParts(gateway int, families map[string]*dto.MetricFamily) {
	for _, part := range [][3]string{
		{"tokens_total", "kind", "prompt"}, {"tokens_total", "kind", "completion"}, {"caller_tokens_total", "owner", "ann"},
		{"limits_admitted_total", "by", "redis"}, {"limits_admitted_total", "by", "share"}, {"caller_limited_total", "owner", "bob"},
		{"requests_total", "status", "200"}, {"requests_total", "status", "429"}, {"requests_total", "status", "500"}, {"requests_total", "status", "503"},
		{"http_requests_total", "route", "models"}, {"http_requests_total", "route", "other"}, {"http_requests_total", "route", "chat/completions"},
		{"attempts_total", "outcome", "success"}, {"attempts_total", "outcome", "replica_fault"}, {"attempts_total", "outcome", "client_left"},
		{"answers_cut_total", "fault", "replica"}, {"answers_cut_total", "fault", "caller"}, {"client_left_total", "phase", "answer"},
	} {
		if total(families["mete_"+part[0]], part[1], part[2]) == 0 {
			s.Errorf("gateway %d: mete_%s has nothing under %s=%q", gateway, part[0], part[1], part[2])
		}
	}
}

func sumOf(family *dto.MetricFamily) (sum float64) {
	if family == nil {
		return math.NaN()
	}
	for _, m := range family.GetMetric() {
		sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
	}
	return sum
}
