//! The text form: what is printed reads back, and what is not a layout says where.

use layout::{AnyLayout, Layout};

fn round_trip(text: &str) {
    let layout: AnyLayout = text
        .parse()
        .unwrap_or_else(|error| panic!("{text}: {error}"));
    assert_eq!(layout.to_string(), text);
    let dense: String = text.split(' ').collect();
    assert_eq!(dense.parse(), Ok(layout), "spaces are optional");
}

#[test]
fn what_is_printed_reads_back() {
    for text in [
        "Auto",
        "Coalesced",
        "Blocked([1, 4], [8, 4], [4, 1], [1, 0])",
        "Blocked([1, 4], [8, 4], [4, 1], [1, 0], cta=[[1, 0], [0, 1]])",
        "Slice(0, Blocked([1, 4], [8, 4], [4, 1], [1, 0]))",
        "Slice(1, Slice(0, Blocked([1, 1, 4], [1, 8, 4], [1, 4, 1], [2, 1, 0])))",
        "Linear(register=[[0, 1]], lane=[[0, 2], [1, 0], [2, 0], [4, 0], [8, 0]], warp=[[16, 0]])",
        "Linear(lane=[[1], [2], [4], [8], [16]], block=[[32]])",
        "Mma([4, 1], [16, 8])",
        "Wgmma([4, 1], [64, 256, 16])",
        "DotOperand(0, Wgmma([4, 1], [64, 64, 16]), 2)",
        "Nvmma(128, 16)",
        "Nvmma(64, 8, transposed=true, rank=3, cta=[[0, 1, 0]])",
        "Nvmma(128, 8, fp4_padded=true)",
        "Swizzled(8, 1, 8, [1, 0])",
        "Padded([[128, 8]], [1, 0])",
        "Padded([[128, 8], [512, 4]], offset=[[0, 1], [1, 0]])",
        "SharedLinear(offset=[[0, 1], [1, 1]])",
        "SharedLinear(offset=[[0, 1]], block=[[1, 0]], alignment=128)",
    ] {
        round_trip(text);
    }
}

#[test]
fn fields_may_be_named() {
    let by_name: Layout =
        "Blocked(order=[1,0], warps=[4,1], size_per_thread=[1,4], threads_per_warp=[8,4],)"
            .parse()
            .unwrap();
    assert_eq!(
        by_name.to_string(),
        "Blocked([1, 4], [8, 4], [4, 1], [1, 0])"
    );
}

#[test]
fn a_prefix_ends_where_the_layout_ends() {
    let text = "Slice(0, Auto) , f32>";
    let (layout, bytes) = Layout::parse_prefix(text).unwrap();
    assert_eq!(
        (layout.to_string().as_str(), &text[bytes..]),
        ("Slice(0, Auto)", " , f32>")
    );
    assert_eq!(Layout::parse_prefix("Auto , x").unwrap().1, 4);
}

#[test]
fn errors_name_column_and_expectation() {
    let check = |text: &str, wanted: &str| {
        assert_eq!(
            text.parse::<AnyLayout>().unwrap_err().to_string(),
            wanted,
            "{text}"
        );
    };
    check(
        "",
        "column 1: expected a layout, a list or a number, found the end",
    );
    check(
        "Block([1])",
        "column 1: expected one of Auto, Coalesced, Blocked, Slice, Linear, Mma, Wgmma, DotOperand, Nvmma, Swizzled, \
         Padded, SharedLinear, found `Block`",
    );
    check(
        "Blocked([1, 4]",
        "column 15: expected `,` or `)`, found the end",
    );
    check(
        "Blocked([1, 4], [8, 4])",
        "column 1: expected warps of Blocked, found no such argument",
    );
    check(
        "Blocked(1)",
        "column 9: expected a list of numbers, found 1",
    );
    check(
        "Mma([4, x], [16, 8])",
        "column 9: expected a number, found `x`",
    );
    check(
        "Slice(0, Nvmma(128, 16))",
        "column 10: expected one of Auto, Coalesced, Blocked, Slice, Linear, Mma, Wgmma, \
         DotOperand, found `Nvmma`",
    );
    check(
        "Nvmma(128, 16, width=2)",
        "column 22: expected only swizzle_bytes, element_bits, transposed, fp4_padded, \
         rank, cta for Nvmma, found `width=`",
    );
    check(
        "Nvmma(128, 16, transposed=1)",
        "column 27: expected `true` or `false`, found 1",
    );
    check(
        "Auto Auto",
        "column 6: expected the end of the layout, found `A`",
    );
    check(
        "Mma([99999999999], [16, 8])",
        "column 6: expected a number below 2^32, found 99999999999",
    );
    check(
        "Padded([[1, 2, 3]], [0])",
        "column 8: expected a list of pairs [interval, padding], found a list",
    );
}

#[test]
fn errors_name_the_part_of_the_text_that_is_wrong() {
    let check = |text: &str, shape: &[u32], wanted: &str| {
        let layout: AnyLayout = text.parse().unwrap();
        let error = match &layout {
            AnyLayout::Distributed(layout) => layout.linear(shape).unwrap_err(),
            AnyLayout::Shared(layout) => layout.linear(shape).unwrap_err(),
        };
        let place = AnyLayout::place_of(text, &error);
        let part: String = text.chars().skip(place.start).take(place.len()).collect();
        assert_eq!(part, wanted, "{text}: {error}");
    };
    check("Blocked([1, 3], [8, 4], [4, 1], [1, 0])", &[8, 8], "3");
    check("Blocked([1, 1], [8, 8], [4, 1], [1, 0])", &[8, 8], "[8, 8]");
    check(
        "Blocked([1, 1], [8, 4], warps=[3, 6], order=[1, 0])",
        &[8, 8],
        "6",
    );
    check("Blocked([1], [32], [4], [0], cta=[[1], [1]])", &[8], "[1]");
    check(
        "Blocked([1], [32], [4], [0])",
        &[8, 8],
        "Blocked([1], [32], [4], [0])",
    );
    check("Slice(0, Slice(3, Mma([2, 2, 1], [1, 16, 8])))", &[8], "3");
    check("Slice(0, Auto)", &[8], "Auto");
    check(
        "DotOperand(0, Mma([4, 1], [16, 16]), 2)",
        &[16, 16],
        "[16, 16]",
    );
    check("Linear(lane=[[1], [2], [3], [4], [8]])", &[16], "[3]");
    check("Linear(lane=[[1], [2]])", &[16], "[[1], [2]]");
    check("Nvmma(128, 16)", &[8, 32], "128");
    check("Nvmma(0, element_bits=12)", &[8, 32], "12");
    check("Padded([[16, 4], [64, 6]], [1, 0])", &[8, 32], "6");
    check("SharedLinear(offset=[[1], [4]], alignment=12)", &[8], "12");
}
