use quote::quote;

use crate::kernel::expand;

/// The kernel that signatures are tried on.
fn check(signature: &proc_macro2::TokenStream, said: &str) {
    let kernel = quote! {
        pub fn k<T: Float, const COLS: usize>(x: Ptr<T>, out: Ptr<T>, row_stride: i64, cols: i32, n: i32) {}
    };
    let expanded = expand(quote!(signature(#signature)), kernel);
    let found = match expanded {
        Ok(tokens) => tokens.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(found.contains(said), "{found}");
}

#[test]
fn constants_of_the_instance_are_put_into_the_text() {
    check(
        &quote!(x: [rows, cols], out: [rows, cols], row_stride = x.stride(0), n = rows * 2, grid = cdiv(rows, per::<T>(COLS) + 1)),
        r#"format ! ("cdiv(rows, {})" , :: tilekit :: rt :: constant (per :: < T > (COLS) + 1))"#,
    );
    check(
        &quote!(x: [rows, cols], out: [rows, COLS], requires(out.stride(0) == x.stride(0), cols <= COLS)),
        r#"format ! ("x.stride(0)")"#,
    );
    check(
        &quote!(x: [rows, cols], out: [rows, COLS], grid = [min(rows, sms), x.shape[1]]),
        r#"format ! ("min(rows, sms)")"#,
    );
    check(
        &quote!(x: [rows], out: [rows], backward(gradients::of_k)),
        r#"backward : :: core :: option :: Option :: Some ({ # [allow (unused_imports)] use self :: gradients :: of_k as _ ; "of_k" })"#,
    );
    check(
        &quote!(x: [rows, cols, 3, 4], out: [rows], window(x, [-1, -n], [0, COLS - 1]), steps(x, [1, n, 2, 1])),
        r#""(0 - (n))""#,
    );
    // A number that has the name of a size is that.
    check(
        &quote!(x: [rows, cols], out: [rows]),
        r#"scalars : :: std :: vec ! [(:: std :: string :: String :: from ("cols") , :: std :: string :: String :: from ("cols"))]"#,
    );
}

/// The kernel that signatures of arrays are tried on.
fn check_arrays(signature: &proc_macro2::TokenStream, said: &str) {
    let kernel = quote! {
        pub fn k(x: Ptr<f32>, strides: [i64; 2], n: i32) {}
    };
    let found = match expand(quote!(signature(#signature)), kernel) {
        Ok(tokens) => tokens.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(found.contains(said), "{found}");
}

#[test]
fn elements_of_arrays_have_a_rule_each() {
    let strides = quote!(x: [rows, n], strides = [x.stride(0), 1]);
    check_arrays(
        &strides,
        r#"from ("strides_0") , :: std :: format ! ("x.stride(0)")"#,
    );
    check_arrays(&strides, "let _ : [_ ; 2usize] = strides ;");
    for (signature, said) in [
        (
            quote!(x: [rows, n], strides = x.stride(0)),
            "`strides` is an array: write `strides = [.., ..]`, a rule for each element",
        ),
        (
            quote!(x: [rows, n], strides: [2]),
            "`strides` is a number and has no shape",
        ),
        (
            quote!(x: [rows, n], strides_0 = 1),
            "`strides_0` is no parameter of this kernel; there are x, n, strides",
        ),
        (
            quote!(x: [rows, n], grid = strides),
            "`strides` is no size, parameter or constant",
        ),
    ] {
        check_arrays(&signature, said);
    }
    for (params, said) in [
        (
            quote!(x: [Ptr<f32>; 2]),
            "`x` is an array of tensors, whose shapes no signature says",
        ),
        (
            quote!(n: [i32; 2], n_1: i32),
            "`n_1` is what an element of the array `n` is called",
        ),
    ] {
        let error = expand(quote!(signature(grid = 1)), quote!(fn k(#params) {}));
        let error = error.expect_err("refused").to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn mistakes_name_what_is_meant() {
    for (signature, said) in [
        (
            quote!(x: [rows], out: [rows], backward(a), backward(b)),
            "`backward` is given twice",
        ),
        (
            quote!(y: [rows]),
            "`y` is no parameter of this kernel; there are x, out, cols, n, row_stride",
        ),
        (
            quote!(x: [rows]),
            "the signature gives `out` no shape: write `out: [..]`",
        ),
        (
            quote!(x: [rows], x: [rows]),
            "the shape of `x` is given twice",
        ),
        (
            quote!(n: [rows]),
            "`n` is a number and has no shape: write `n = ..`",
        ),
        (
            quote!(x: [rows], out: [x]),
            "`x` is a tensor and the name of a size",
        ),
        (
            quote!(x: [rows], out: [rows], x = rows),
            "`x` is a tensor: write its shape",
        ),
        (
            quote!(x: [rows], out: [rows], m = rows),
            "`m` is no parameter of this kernel",
        ),
        (
            quote!(x: [rows, cols], out: [rows], cols = x.shape[1]),
            "`cols` is derived twice",
        ),
        (
            quote!(x: [rows], out: [rows], n = rows, n = rows),
            "`n` is given twice",
        ),
        (
            quote!(x: [rows], out: [rows], n = kols),
            "`kols` is no size, parameter or constant; the sizes that the shapes name are rows",
        ),
        (
            quote!(x: [rows], out: [2 * m]),
            "`m` is no size, parameter or constant",
        ),
        (
            quote!(x: [rows], out: [rows], n = y.stride(0)),
            "`y` is no tensor of this signature; there are x, out",
        ),
        (
            quote!(x: [rows], out: [rows], n = x.shape[1]),
            "`x` has 1 dimensions in this signature, counted from 0",
        ),
        (
            quote!(x: [rows], out: [rows], n = rows << 1),
            "a rule over sizes is made of",
        ),
        (
            quote!(x: [rows], out: [rows], grid = [1, 1, 1, 1]),
            "a grid has one to three counts",
        ),
        (
            quote!(x: [rows], out: [rows], requires(rows)),
            "expected a comparison",
        ),
        (quote!(x[rows]), "expected `x: [rows, cols]`"),
        (
            quote!(x: [rows, cols, n, 4], out: [rows], window(y, [1, 1], [1, 1])),
            "`y` is no tensor of this signature; there are x, out",
        ),
        (
            quote!(x: [rows, cols, 3, 4], out: [rows], window(x, [0, 0], [0])),
            "1 numbers for `x`, which has 4 dimensions: `window` takes 2",
        ),
        (
            quote!(x: [rows, cols, 3, 4], out: [rows], steps(x, [1, 2])),
            "2 numbers for `x`, which has 4 dimensions: `steps` takes 4",
        ),
        (
            quote!(x: [rows], out: [rows], steps(x, [1]), steps(x, [1])),
            "the steps of `x` are given twice",
        ),
        (
            quote!(x: [rows], out: [rows], window(x, 1)),
            "expected square brackets",
        ),
    ] {
        check(&signature, said);
    }
}

/// The kernel that signatures of structs are tried on.
fn check_structs(signature: &proc_macro2::TokenStream, said: &str) {
    let kernel = quote! {
        pub fn k(source: Rows<f32>, out: Ptr<f32>, n: i32, other_pitch: i32, other: Rows<f32>) {}
    };
    let found = match expand(quote!(signature(#signature)), kernel) {
        Ok(tokens) => tokens.to_string(),
        Err(error) => error.to_string(),
    };
    assert!(found.contains(said), "{found}");
}

#[test]
fn fields_of_structs_are_tensors_and_rules() {
    let whole = quote!(source.first: [rows, cols], source.pitch = source.first.stride(0), source.scales = [1, rows], out: [rows, cols]);
    check_structs(&whole, r#"tensors : :: std :: vec ! [("source_first""#);
    check_structs(&whole, r#"format ! ("source_first.stride(0)")"#);
    check_structs(&whole, r#"String :: from ("source_scales_1")"#);
    check_structs(&whole, "let _ : [_ ; 2usize] = source . scales ;");
    check_structs(&whole, "let _ = & source . pitch ;");
}

#[test]
fn mistakes_in_fields_of_structs() {
    check_structs(
        &quote!(out.first: [rows], n = rows),
        "`out` is no struct among the parameters of this kernel",
    );
    check_structs(
        &quote!(out: [rows], other.pitch = rows),
        "`other_pitch` is what this field is called: give the parameter another name",
    );
    check_structs(
        &quote!(out: [rows], source.pitch = rows, source.pitch = 2),
        "`source_pitch` is given twice",
    );
}
