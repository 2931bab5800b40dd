//! What is counted, by NVIDIA's names for GH100 (`ncu --query-metrics --chips gh100` lists them).

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in records.
    pub key: &'static str,
    /// NVIDIA's name.
    pub name: &'static str,
    /// What NVIDIA's number is multiplied with.
    pub factor: u32,
}

const fn metric(key: &'static str, name: &'static str) -> Metric {
    Metric {
        key,
        name,
        factor: 1,
    }
}

/// All but the reasons of stalls. Copies by TMA and operands of wgmma bypass the load and store unit, whose conflicts say nothing of them.
pub const METRICS: &[Metric] = &[
    metric("time_ns", "gpu__time_duration.sum"),
    metric("sm_clock_hz", "gpc__cycles_elapsed.avg.per_second"),
    metric(
        "tensor_active_percent",
        "sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed",
    ),
    metric("dram_read_bytes", "dram__bytes_read.sum"),
    metric("dram_written_bytes", "dram__bytes_write.sum"),
    metric(
        "dram_busy_percent",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
    ),
    metric("l2_bytes", "lts__t_bytes.sum"),
    Metric {
        key: "sm_l2_bytes",
        name: "lts__t_sectors_srcunit_tex.sum",
        factor: 32,
    },
    metric("l2_hit_percent", "lts__t_sector_hit_rate.pct"),
    metric(
        "load_conflicts",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld.sum",
    ),
    metric(
        "store_conflicts",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_st.sum",
    ),
    metric(
        "wgmma_conflicts",
        "l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_gmma.sum",
    ),
    metric(
        "shared_wavefronts",
        "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    ),
    metric("instructions", "smsp__inst_executed.sum"),
    metric(
        "wgmma_instructions",
        "sm__inst_executed_pipe_tensor_op_gmma.sum",
    ),
    metric(
        "issue_percent",
        "smsp__issue_active.avg.pct_of_peak_sustained_elapsed",
    ),
    metric(
        "warps_percent",
        "sm__warps_active.avg.pct_of_peak_sustained_active",
    ),
];

/// Why a warp does not issue, by NVIDIA's words, and what that means.
pub const STALLS: &[(&str, &str)] = &[
    ("barrier", "a CTA or named barrier"),
    ("branch_resolving", "the target of a branch"),
    ("dispatch_stall", "the dispatcher"),
    ("drain", "stores at the end of the warp"),
    ("gmma", "wgmma"),
    ("imc_miss", "constants"),
    ("lg_throttle", "the queue of global and local accesses"),
    ("long_scoreboard", "global or local memory"),
    ("math_pipe_throttle", "a busy arithmetic unit"),
    ("membar", "a fence"),
    (
        "mio_throttle",
        "the queue of shared memory and special functions",
    ),
    ("misc", "something else"),
    ("no_instruction", "instructions to be fetched"),
    ("not_selected", "another warp that issues"),
    ("short_scoreboard", "shared memory or special functions"),
    ("sleeping", "nanosleep or an mbarrier, suspended"),
    ("tex_throttle", "the queue of textures"),
    ("wait", "a fixed latency"),
];

/// NVIDIA's name of the share of a warp's time for which it is stalled for this reason.
pub fn stall_metric(reason: &str) -> String {
    format!("smsp__warp_issue_stalled_{reason}_per_warp_active.pct")
}
