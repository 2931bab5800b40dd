//! Rings of all depths are proved, and each broken twin of one is found, never proved.

#![expect(
    clippy::format_push_string,
    reason = "a kernel's text is easier to read whole"
)]

use prove::{Verdict, prove};

/// A producer fills `depth` stages by TMA, and a warpgroup reads them, `steps` times.
fn ring(depth: usize, steps: &str) -> String {
    let mut text = format!(
        "\
#nvmma = Nvmma(128, 16)
#one = Swizzled(1, 1, 1, [0])
#blocked = Blocked([1, 8], [4, 8], [4, 1], [1, 0])
kernel @ring(%a: tensor_map<64x64xbf16, #nvmma>, %n: i32) warps(4) stage(resolved) {{
  %zero = constant {{value=0}} : i32
  %unit = constant {{value=1}} : i32
  %last = constant {{value={}}} : i32
  %steps = {steps} : i32
  %tiles = smem_alloc : smem<{depth}x64x64xbf16, #nvmma>
  %full = smem_alloc : smem<{depth}x1xu64, #one>
  %empty = smem_alloc : smem<{depth}x1xu64, #one>
",
        depth - 1
    );
    for at in 0..depth {
        text += &format!(
            "  %at{at} = constant {{value={at}}} : i32
  %full{at} = smem_index %full, %at{at} : smem<1xu64, #one>
  mbarrier_init %full{at} {{count=1}}
  %empty{at} = smem_index %empty, %at{at} : smem<1xu64, #one>
  mbarrier_init %empty{at} {{count=4}}
"
        );
    }
    text += "  warp_specialize {warps=[4, 1], registers=[0, 0]} () {
    %ci, %cp = for %zero, %steps, %unit, [%zero, %zero] (%i: i32, %index: i32, %phase: i32) {
      %other = binary %phase, %unit {op=xor} : i32
      %f = smem_index %full, %index : smem<1xu64, #one>
      mbarrier_wait %f, %phase
      %tile = smem_index %tiles, %index : smem<64x64xbf16, #nvmma>
      %read = smem_load %tile : tensor<64x64xbf16, #blocked>
      %e = smem_index %empty, %index : smem<1xu64, #one>
      mbarrier_arrive %e {count=1, by=warp}
      %wraps = compare %index, %last {op=eq} : i1
      %more = binary %index, %unit {op=add} : i32
      %next = select %wraps, %zero, %more : i32
      %parity = select %wraps, %other, %phase : i32
      yield [%next, %parity]
    } : i32, i32
    yield []
  } () {
    %pi, %pp = for %zero, %steps, %unit, [%zero, %zero] (%i.1: i32, %index.1: i32, %phase.1: i32) {
      %e.1 = smem_index %empty, %index.1 : smem<1xu64, #one>
      %before = binary %phase.1, %unit {op=xor} : i32
      mbarrier_wait %e.1, %before
      %f.1 = smem_index %full, %index.1 : smem<1xu64, #one>
      mbarrier_expect %f.1 {bytes=8192}
      %tile.1 = smem_index %tiles, %index.1 : smem<64x64xbf16, #nvmma>
      tma_load %a, [%zero, %zero], [], %tile.1, %f.1
      %wraps.1 = compare %index.1, %last {op=eq} : i1
      %more.1 = binary %index.1, %unit {op=add} : i32
      %next.1 = select %wraps.1, %zero, %more.1 : i32
      %other.1 = binary %phase.1, %unit {op=xor} : i32
      %parity.1 = select %wraps.1, %other.1, %phase.1 : i32
      yield [%next.1, %parity.1]
    } : i32, i32
    yield []
  }
  return
}
";
    text
}

const N: &str = "binary %n, %unit {op=add}";

/// What is said of a kernel, in one line.
fn verdict(text: &str) -> String {
    let func = ir::text::parse("ring.tile", text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    match prove(&func) {
        Verdict::Bare => "bare".into(),
        Verdict::Proved { .. } => "proved".into(),
        Verdict::Found(found) => {
            let at = found.primary.at.as_ref().map_or(0, |at| at.line as usize);
            let line = text.lines().nth(at - 1).unwrap_or_default().trim();
            format!("found at `{line}`: {}", found.message)
        }
        Verdict::Undecided(undecided) => format!("not decided: {}", undecided.reason),
    }
}

/// One arrival of the whole partition, which its warps meet for, instead of one of each warp.
fn of_partition(ring: &str) -> String {
    let text = ring.replace("{count=4}", "{count=1}");
    text.replace("%e {count=1, by=warp}", "%e {count=1}")
}

#[test]
fn warps_meet_before_one_thread_arrives_for_them() {
    for depth in 1..=4 {
        let right = of_partition(&ring(depth, N));
        assert_eq!(verdict(&right), "proved", "{depth} stages");
        let read = "      %read = smem_load %tile : tensor<64x64xbf16, #blocked>\n";
        let arrival = "      mbarrier_arrive %e {count=1}\n";
        let early = right.replace(read, "");
        let early = early.replace(arrival, &format!("{arrival}{read}"));
        let said = verdict(&early);
        assert!(
            said.starts_with("found at `%read"),
            "{depth} stages: {said}"
        );
    }
}

/// A ring of three stages with one line changed.
fn check(name: &str, line: &str, with: &str, expected: &str) {
    let text = ring(3, N);
    assert_eq!(text.matches(line).count(), 1, "{name}: {line}");
    let said = verdict(&text.replace(line, with));
    assert_eq!(said, expected, "{name}");
}

#[test]
fn right_rings_are_proved() {
    for depth in 1..=4 {
        for steps in [
            "constant {value=0}",
            "constant {value=1}",
            "constant {value=9}",
            N,
        ] {
            assert_eq!(
                verdict(&ring(depth, steps)),
                "proved",
                "{depth} stages, {steps}"
            );
        }
    }
}

/// Two warpgroups in turns: each passes the turn at the barrier where the other waits.
const TURNS: &str = "kernel @turns(%n: i32) warps(4) stage(resolved) {
  %zero = constant {value=0} : i32
  %unit = constant {value=1} : i32
  warp_specialize {warps=[4, 4], registers=[0, 0]} () {
    for %zero, %n, %unit, [] (%i: i32) {
      named_sync {number=0, threads=256}
      named_arrive {number=1, threads=256}
      yield []
    }
    named_sync {number=0, threads=256}
    yield []
  } () {
    named_arrive {number=0, threads=256}
    for %zero, %n, %unit, [] (%i.1: i32) {
      named_sync {number=1, threads=256}
      named_arrive {number=0, threads=256}
      yield []
    }
    yield []
  }
  return
}
";

/// Warps that have passed the turn wait at a barrier that the end of that turn does not complete.
#[test]
fn turns_of_named_barriers_are_proved() {
    assert_eq!(verdict(TURNS), "proved");
    let first = "    named_arrive {number=0, threads=256}\n    for";
    let said = verdict(&TURNS.replace(first, "    for"));
    assert!(said.starts_with("found at `named_sync"), "{said}");
    let pass = "      named_arrive {number=0, threads=256}\n";
    let said = verdict(&TURNS.replace(pass, &pass.repeat(2)));
    let twice = "these threads may arrive at the named barrier twice in one phase";
    assert!(said.ends_with(twice), "{said}");
}

#[test]
fn a_kernel_without_barriers_has_nothing_to_prove() {
    let text = "kernel @bare() warps(4) stage(resolved) {\n  return\n}\n";
    assert_eq!(verdict(text), "bare");
}

#[test]
fn a_kernel_that_initializes_no_mbarrier_is_not_one_without() {
    let ring = ring(2, N);
    let lines: Vec<&str> = ring
        .lines()
        .filter(|line| !line.contains("mbarrier_init"))
        .collect();
    assert_eq!(
        verdict(&(lines.join("\n") + "\n")),
        "not decided: no mbarrier is initialized at this index"
    );
}

/// What is said of the consumer's wait.
fn consumer_lacks(what: &str) -> String {
    format!("found at `mbarrier_wait %f, %phase`: this wait is never satisfied: {what}")
}

/// What is said of the consumer's read.
const READ_EARLY: &str = "found at `%read = smem_load %tile : tensor<64x64xbf16, #blocked>`: \
    a stage is read here that may be refilled already, or not filled yet";

#[test]
fn a_missing_arrival_is_found() {
    let release = "      mbarrier_arrive %e {count=1, by=warp}\n";
    check(
        "release",
        release,
        "",
        &consumer_lacks("the phase lacks 1 of 1 arrival"),
    );
}

#[test]
fn a_wrong_count_is_found() {
    let empty = "mbarrier_init %empty0 {count=4}";
    let overtaken = "found at `mbarrier_wait %f, %phase`: \
        a phase may complete twice before this wait ends: the wait is for a parity that is back";
    check(
        "too few",
        empty,
        "mbarrier_init %empty0 {count=3}",
        overtaken,
    );
    let lacks = consumer_lacks("the phase lacks 1 of 1 arrival");
    check("too many", empty, "mbarrier_init %empty0 {count=5}", &lacks);
    let full = "mbarrier_init %full1 {count=1}";
    let lacks = consumer_lacks("the phase lacks 1 of 2 arrivals");
    check("full", full, "mbarrier_init %full1 {count=2}", &lacks);
}

#[test]
fn a_wrong_parity_is_found() {
    let consumer = "mbarrier_wait %f, %phase\n";
    check(
        "consumer",
        consumer,
        "mbarrier_wait %f, %other\n",
        READ_EARLY,
    );
    let producer = "mbarrier_wait %e.1, %before";
    let lacks = consumer_lacks("the phase lacks 1 of 1 arrival");
    check("producer", producer, "mbarrier_wait %e.1, %phase.1", &lacks);
    let flips = "%parity.1 = select %wraps.1, %other.1, %phase.1";
    let never = "%parity.1 = select %wraps.1, %phase.1, %phase.1";
    check("never flips", flips, never, TOO_MANY);
}

#[test]
fn a_counter_that_wraps_in_a_narrow_type_is_not_proved() {
    let line = "      %parity = select %wraps, %other, %phase : i32\n";
    let with = "      %flipped = select %wraps, %other, %phase : i32
      %narrow = cast %i : u8
      %back = cast %narrow : i32
      %same = compare %back, %i {op=eq} : i1
      %parity = select %same, %flipped, %phase : i32\n";
    for steps in ["constant {value=300}", N] {
        let said = verdict(&ring(3, steps).replace(line, with));
        assert_eq!(said, "not decided: a counter may wrap in a conversion");
    }
}

/// What is said where the next phase's arrivals come before the wait of the last.
const TOO_MANY: &str = "found at `mbarrier_arrive %e {count=1, by=warp}`: \
    3 arrivals here, and the phase counts 4 arrivals of which 1 is pending";

#[test]
fn wrong_bytes_are_found() {
    let lacks = consumer_lacks("the phase lacks 16 bytes of copies");
    check("more", "{bytes=8192}", "{bytes=8208}", &lacks);
    let lacks = consumer_lacks("copies of 16 bytes more than it expects have completed");
    check("fewer", "{bytes=8192}", "{bytes=8176}", &lacks);
}

#[test]
fn a_missing_expect_is_found() {
    let expect = "      mbarrier_expect %f.1 {bytes=8192}\n";
    let lacks = consumer_lacks(
        "the phase lacks 1 of 1 arrival, and copies of 8192 bytes more than it expects have completed",
    );
    check("expect", expect, "", &lacks);
}

#[test]
fn a_missing_copy_is_found() {
    let copy = "      tma_load %a, [%zero, %zero], [], %tile.1, %f.1\n";
    let lacks = consumer_lacks("the phase lacks 8192 bytes of copies");
    check("copy", copy, "", &lacks);
}

#[test]
fn a_missing_wait_is_found() {
    check(
        "consumer",
        "      mbarrier_wait %f, %phase\n",
        "",
        READ_EARLY,
    );
    check(
        "producer",
        "      mbarrier_wait %e.1, %before\n",
        "",
        TOO_MANY,
    );
}

#[test]
fn a_release_before_the_read_is_found() {
    let text = ring(2, N);
    let read = "      %read = smem_load %tile : tensor<64x64xbf16, #blocked>\n";
    let release = "      mbarrier_arrive %e {count=1, by=warp}\n";
    let early = text
        .replace(read, "")
        .replace(release, &format!("{release}{read}"));
    assert_eq!(verdict(&early), READ_EARLY);
}

#[test]
fn two_partitions_that_wait_in_a_circle_are_found() {
    // Both begin with a wait for phase 0: the producer for a release, the consumer for a fill.
    let circle = ring(1, N).replace(
        "mbarrier_wait %e.1, %before",
        "mbarrier_wait %e.1, %phase.1",
    );
    assert_eq!(
        verdict(&circle),
        consumer_lacks("the phase lacks 1 of 1 arrival")
    );
}

#[test]
fn trip_counts_that_differ_are_not_proved() {
    let text = ring(2, N).replace(
        "%pi, %pp = for %zero, %steps, %unit",
        "%pi, %pp = for %zero, %n, %unit",
    );
    let said = verdict(&text);
    assert!(
        said.starts_with("found") || said.starts_with("not decided"),
        "{said}"
    );
}

/// Each step of a barrier deleted, and each count and number of bytes changed by one unit.
fn mutants(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut all = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if !line.contains("mbarrier_") && !line.contains("tma_load") {
            continue;
        }
        let mut with = |new: &str| {
            let mut mutant = lines.clone();
            mutant[at] = new;
            all.push(mutant.join("\n") + "\n");
        };
        with("");
        let changes = [
            ("{count=4}", "{count=3}"),
            ("{count=4}", "{count=5}"),
            ("{count=1}", "{count=2}"),
            ("{count=1,", "{count=2,"),
            ("{bytes=8192}", "{bytes=8208}"),
            ("{bytes=8192}", "{bytes=8176}"),
        ];
        for (from, to) in changes.iter().filter(|(from, _)| line.contains(from)) {
            with(&line.replace(from, to));
        }
    }
    all
}

#[test]
fn no_mutant_of_a_ring_is_proved() {
    let mut count = 0;
    for depth in 1..=4 {
        for mutant in mutants(&ring(depth, N)) {
            let said = verdict(&mutant);
            let is_refused = said.starts_with("found") || said.starts_with("not decided");
            assert!(is_refused, "{said}:\n{mutant}");
            count += 1;
        }
    }
    assert_eq!(count, 82);
}
