//! Elementary functions in f64, by the polynomials of fdlibm and Cephes.

use ptx::{BinaryOp, Compare, Operand, Predicate, Reg, RegClass, Rounding, Type};

use super::reduction::{TWO_OVER_PI_CHUNKS, chunk_times};
use crate::emit::code::Code;

const TY: Type = Type::F64;

/// What a large angle is divided by and the pieces of 2/pi are multiplied by, as a power of two.
const SHIFTED_BITS: i32 = 200;
/// ln 2, its upper bits: whole multiples of it are exact.
const LN2_HIGH: f64 = 6.931_471_803_691_238e-1;
/// What is left of ln 2.
const LN2_LOW: f64 = 1.908_214_929_270_587_7e-10;
/// Up to here three parts of pi/2 reduce an angle.
const NEAR_ANGLE: f64 = 1e8;

impl Code {
    fn f64_op(&mut self, op: BinaryOp, a: impl Into<Operand>, b: impl Into<Operand>) -> Operand {
        self.exactly(op, TY, a, b)
    }

    fn whole_f64(&mut self, x: Operand) -> Operand {
        self.convert(TY, TY, Some(Rounding::Rni), x).into()
    }

    pub(super) fn exp_f64(&mut self, x: Operand) -> Operand {
        let x = self.clamped_f64(x, 760.0);
        let turns = self.f64_op(BinaryOp::Mul, x, Operand::f64(std::f64::consts::LOG2_E));
        let whole = self.whole_f64(turns);
        let rest = self.fma(TY, whole, Operand::f64(-LN2_HIGH), x);
        let rest = self.fma(TY, whole, Operand::f64(-LN2_LOW), rest).into();
        let power = self.exp_series_f64(rest);
        self.scaled_f64(power, whole)
    }

    pub(super) fn exp2_f64(&mut self, x: Operand) -> Operand {
        let x = self.clamped_f64(x, 1100.0);
        let whole = self.whole_f64(x);
        let rest = self.f64_op(BinaryOp::Sub, x, whole);
        let rest = self.f64_op(BinaryOp::Mul, rest, Operand::f64(std::f64::consts::LN_2));
        let power = self.exp_series_f64(rest);
        self.scaled_f64(power, whole)
    }

    /// `e^x` for `|x| <= ln 2 / 2`: what the series leaves out after `x^13 / 13!` is below half a unit.
    fn exp_series_f64(&mut self, x: Operand) -> Operand {
        let mut factorial = 1.0;
        let mut coefficients = vec![1.0];
        for n in 1..=13 {
            factorial *= f64::from(n);
            coefficients.push(1.0 / factorial);
        }
        coefficients.reverse();
        self.polynomial_f64(x, &coefficients)
    }

    /// `x` between `-limit` and `limit`; NaN stays NaN, for it compares with nothing.
    fn clamped_f64(&mut self, x: Operand, limit: f64) -> Operand {
        let (low, high) = (Operand::f64(-limit), Operand::f64(limit));
        let x = self.choose((Compare::Lt, x, low), TY, low, x);
        self.choose((Compare::Gt, x, high), TY, high, x)
    }

    /// `x * 2^power` for a whole `power`, in two steps.
    fn scaled_f64(&mut self, x: Operand, power: Operand) -> Operand {
        let power = self.convert(Type::S32, TY, Some(Rounding::Rzi), power);
        let half = self.binary(BinaryOp::Shr, Type::S32, power, 1_u32);
        let rest = self.binary(BinaryOp::Sub, Type::S32, power, half);
        let scale = |code: &mut Code, power: Reg| -> Operand {
            let biased = code.binary(BinaryOp::Add, Type::S32, power, 1023_u32);
            let high = code.binary(BinaryOp::Shl, Type::B32, biased, 20_u32);
            let bits = code.pack(Type::B64, &[Operand::Int(0), high.into()]);
            code.mov_bits(RegClass::F64, bits).into()
        };
        let (once, twice) = (scale(self, half), scale(self, rest));
        let scaled = self.f64_op(BinaryOp::Mul, x, once);
        self.f64_op(BinaryOp::Mul, scaled, twice)
    }

    pub(super) fn log_f64(&mut self, x: Operand) -> Operand {
        let (exponent, f, correction) = self.log_parts_f64(x);
        // e ln2_high - ((correction - e ln2_low) - f)
        let low = self.fma(TY, exponent, Operand::f64(-LN2_LOW), correction);
        let rest = self.f64_op(BinaryOp::Sub, low, f);
        let negative = self.unary(ptx::UnaryOp::Neg, TY, rest);
        let sum = self
            .fma(TY, exponent, Operand::f64(LN2_HIGH), negative)
            .into();
        self.log_or_limit_f64(x, sum)
    }

    pub(super) fn log2_f64(&mut self, x: Operand) -> Operand {
        let (exponent, f, correction) = self.log_parts_f64(x);
        // ln m = f - correction, times 1 / ln 2 in two parts.
        let log = self.f64_op(BinaryOp::Sub, f, correction);
        let lost = self.f64_op(BinaryOp::Sub, f, log);
        let lost = self.f64_op(BinaryOp::Sub, lost, correction);
        let low = self.f64_op(BinaryOp::Mul, lost, Operand::f64(std::f64::consts::LOG2_E));
        let low = self.fma(TY, log, Operand::f64(2.035_527_374_093_103_3e-17), low);
        let sum = self.fma(TY, log, Operand::f64(std::f64::consts::LOG2_E), low);
        let sum = self.f64_op(BinaryOp::Add, sum, exponent);
        self.log_or_limit_f64(x, sum)
    }

    /// `x = (1 + f) 2^e` with `1 + f` from sqrt(1/2) to sqrt(2), as e, f and `f - ln(1 + f)`.
    fn log_parts_f64(&mut self, x: Operand) -> (Operand, Operand, Operand) {
        let is_small = self.setp(Compare::Lt, TY, x, Operand::f64(f64::MIN_POSITIVE));
        let scaled = self.f64_op(BinaryOp::Mul, x, Operand::f64(18_014_398_509_481_984.0));
        let number = self.selp(TY, scaled, x, is_small);
        let start = self.selp(Type::B32, -54_i32, 0_u32, is_small);
        let bits = self.mov_bits(RegClass::B64, number);
        let [low, high] = self.unpack(Type::B64, bits);
        // The exponent of x / sqrt(1/2), rounded down.
        let above = self.binary(BinaryOp::Sub, Type::S32, high, 0x3fe6_a09e_u32);
        let shifted = self.binary(BinaryOp::And, Type::B32, above, 0xfff0_0000_u32);
        let count = self.binary(BinaryOp::Shr, Type::S32, above, 20_u32);
        let count = self.binary(BinaryOp::Add, Type::S32, count, start);
        let exponent = self.convert(TY, Type::S32, Some(Rounding::Rn), count);
        let high = self.binary(BinaryOp::Sub, Type::S32, high, shifted);
        let mantissa = self.pack(Type::B64, &[low.into(), high.into()]);
        let mantissa = self.mov_bits(RegClass::F64, mantissa);
        let f = self.f64_op(BinaryOp::Add, mantissa, Operand::f64(-1.0));
        let denominator = self.f64_op(BinaryOp::Add, f, Operand::f64(2.0));
        let s = self.divide_f64(f, denominator);
        let z = self.f64_op(BinaryOp::Mul, s, s);
        let series = self.polynomial_f64(
            z,
            &[
                0.147_981_986_051_165_86,
                0.153_138_376_992_093_73,
                0.181_835_721_616_180_5,
                0.222_221_984_321_497_84,
                0.285_714_287_436_623_9,
                0.399_999_999_994_094_2,
                0.666_666_666_666_673_5,
            ],
        );
        let r = self.f64_op(BinaryOp::Mul, z, series);
        let half = self.f64_op(BinaryOp::Mul, f, Operand::f64(0.5));
        let square = self.f64_op(BinaryOp::Mul, half, f);
        // ln(1 + f) = f - (f^2/2 - s (f^2/2 + R))
        let sum = self.f64_op(BinaryOp::Add, square, r);
        let negative = self.unary(ptx::UnaryOp::Neg, TY, s);
        let correction = self.fma(TY, negative, sum, square).into();
        (exponent.into(), f, correction)
    }

    fn log_or_limit_f64(&mut self, x: Operand, sum: Operand) -> Operand {
        let zero = Operand::f64(0.0);
        let twice = self.f64_op(BinaryOp::Add, x, x);
        let result = self.choose((Compare::Ltu, x, zero), TY, Operand::f64(f64::NAN), sum);
        let result = self.choose(
            (Compare::Geu, x, Operand::f64(f64::INFINITY)),
            TY,
            twice,
            result,
        );
        self.choose(
            (Compare::Eq, x, zero),
            TY,
            Operand::f64(f64::NEG_INFINITY),
            result,
        )
    }

    /// Sine (`quarter` 0) or cosine (`quarter` 1).
    pub(super) fn sine_f64(&mut self, x: Operand, quarter: u32) -> Operand {
        let (rest, turns) = self.quarter_turns_f64(x);
        let turns = self.binary(BinaryOp::Add, Type::S32, turns, quarter);
        let z = self.f64_op(BinaryOp::Mul, rest, rest);
        let series = self.polynomial_f64(
            z,
            &[
                1.589_690_995_211_55e-10,
                -2.505_076_025_340_686_3e-8,
                2.755_731_370_707_006_8e-6,
                -1.984_126_982_985_795e-4,
                8.333_333_333_322_49e-3,
                -0.166_666_666_666_666_32,
            ],
        );
        let cube = self.f64_op(BinaryOp::Mul, rest, z);
        let sine = self.fma(TY, series, cube, rest);
        let series = self.polynomial_f64(
            z,
            &[
                -1.135_964_755_778_819_5e-11,
                2.087_572_321_298_175e-9,
                -2.755_731_435_139_066_3e-7,
                2.480_158_728_947_673e-5,
                -1.388_888_888_887_411e-3,
                4.166_666_666_666_66e-2,
                -0.5,
                1.0,
            ],
        );
        let is_odd = self.bit_set(turns, 1);
        let value = self.selp(TY, series, sine, is_odd);
        let is_negative = self.bit_set(turns, 2);
        let negated = self.unary(ptx::UnaryOp::Neg, TY, value);
        self.selp(TY, negated, value, is_negative).into()
    }

    pub(super) fn quarter_turns_f64(&mut self, x: Operand) -> (Operand, Reg) {
        let turns = self.f64_op(BinaryOp::Mul, x, Operand::f64(std::f64::consts::FRAC_2_PI));
        let whole = self.whole_f64(turns);
        let rest = self.fma(TY, whole, Operand::f64(-std::f64::consts::FRAC_PI_2), x);
        let rest = self.fma(TY, whole, Operand::f64(-6.123_233_995_736_766e-17), rest);
        let rest = self.fma(TY, whole, Operand::f64(1.497_384_904_859_17e-33), rest);
        let count = self.convert(Type::S32, TY, Some(Rounding::Rzi), whole);
        let (far_rest, far_turns) = (self.reg(RegClass::F64), self.reg(RegClass::B32));
        self.copy(far_rest, rest);
        self.copy(far_turns, count);
        let magnitude = self.unary(ptx::UnaryOp::Abs, TY, x);
        let is_far = self.setp(Compare::Gt, TY, magnitude, Operand::f64(NEAR_ANGLE));
        let (far, back) = (self.label("far_angle"), self.label("angle"));
        self.branch(Some(Predicate::is(is_far)), far, false);
        self.bind(back);
        self.out_of_line(far, back, |code| {
            code.reduce_far_f64(x, far_rest, far_turns);
        });
        (far_rest.into(), far_turns)
    }

    /// Payne and Hanek's reduction as for f32, with the angle in two halves so that products stay exact, and the sum in
    /// three parts, since an f64 may come as near to a multiple of pi/2 as 2^-62, and 53 bits of that are wanted.
    fn reduce_far_f64(&mut self, x: Operand, rest: Reg, turns: Reg) {
        // The last pieces of 2/pi are too small for an f64, so the angle gives them some of its size.
        let x = self.f64_op(BinaryOp::Mul, x, Operand::f64(2_f64.powi(-SHIFTED_BITS)));
        let bits = self.mov_bits(RegClass::B64, x);
        let upper = self.binary(BinaryOp::And, Type::B64, bits, -(1_i64 << 27));
        let upper: Operand = self.mov_bits(RegClass::F64, upper).into();
        let lower = self.f64_op(BinaryOp::Sub, x, upper);
        let zero = Operand::f64(0.0);
        let (mut high, mut low, mut lowest) = (zero, zero, zero);
        for at in 0..TWO_OVER_PI_CHUNKS {
            for half in [upper, lower] {
                let product = self.f64_op(
                    BinaryOp::Mul,
                    half,
                    Operand::f64(chunk_times(at, SHIFTED_BITS)),
                );
                let small = self.modulo_four(product);
                let (sum, error) = self.two_sum(high, small);
                high = self.modulo_four(sum);
                let (sum, error) = self.two_sum(low, error);
                low = sum;
                lowest = self.f64_op(BinaryOp::Add, lowest, error);
            }
        }
        let whole = self.whole_f64(high);
        let part = self.f64_op(BinaryOp::Sub, high, whole);
        let (part, error) = self.two_sum(part, low);
        let error = self.f64_op(BinaryOp::Add, error, lowest);
        let part = self.f64_op(BinaryOp::Add, part, error);
        let angle = self.f64_op(
            BinaryOp::Mul,
            part,
            Operand::f64(std::f64::consts::FRAC_PI_2),
        );
        let count = self.convert(Type::S32, TY, Some(Rounding::Rzi), whole);
        self.copy(rest, angle);
        self.copy(turns, count);
    }

    /// `a + b` and what its rounding lost (Knuth).
    fn two_sum(&mut self, a: Operand, b: Operand) -> (Operand, Operand) {
        let sum = self.f64_op(BinaryOp::Add, a, b);
        let b_part = self.f64_op(BinaryOp::Sub, sum, a);
        let a_part = self.f64_op(BinaryOp::Sub, sum, b_part);
        let b_lost = self.f64_op(BinaryOp::Sub, b, b_part);
        let a_lost = self.f64_op(BinaryOp::Sub, a, a_part);
        (sum, self.f64_op(BinaryOp::Add, a_lost, b_lost))
    }

    pub(super) fn tanh_f64(&mut self, x: Operand) -> Operand {
        let magnitude: Operand = self.unary(ptx::UnaryOp::Abs, TY, x).into();
        let z = self.f64_op(BinaryOp::Mul, x, x);
        let p = self.polynomial_f64(
            z,
            &[
                -0.964_399_179_425_052_2,
                -99.287_723_100_191_87,
                -1_614.687_684_417_084_5,
            ],
        );
        let q = self.polynomial_f64(
            z,
            &[
                1.0,
                112.811_678_491_632_93,
                2_235.488_390_601_004_5,
                4_844.063_053_251_255,
            ],
        );
        let ratio = self.divide_f64(p, q);
        let cube = self.f64_op(BinaryOp::Mul, x, z);
        let near = self.fma(TY, ratio, cube, x).into();
        let twice = self.f64_op(BinaryOp::Add, magnitude, magnitude);
        let power = self.exp_f64(twice);
        let denominator = self.f64_op(BinaryOp::Add, power, Operand::f64(1.0));
        let quotient = self.divide_f64(Operand::f64(2.0), denominator);
        let far = self.f64_op(BinaryOp::Sub, Operand::f64(1.0), quotient);
        let far = self.with_sign(TY, x, far);
        self.choose((Compare::Ge, magnitude, Operand::f64(0.625)), TY, far, near)
    }

    /// fdlibm's five ranges, each a quotient of polynomials; every thread computes all and picks one.
    pub(super) fn erf_f64(&mut self, x: Operand) -> Operand {
        let t: Operand = self.unary(ptx::UnaryOp::Abs, TY, x).into();
        let z = self.f64_op(BinaryOp::Mul, x, x);
        let y = self.ratio_f64(z, &NEAR_P, &NEAR_Q);
        let near = self.fma(TY, x, y, x);
        let s = self.f64_op(BinaryOp::Sub, t, Operand::f64(1.0));
        let middle = self.ratio_f64(s, &MIDDLE_P, &MIDDLE_Q);
        let middle = self.f64_op(BinaryOp::Add, middle, Operand::f64(ERX));
        // erf = 1 - e^(-t^2 - 0.5625 + R/S) / t beyond 1.25, with R/S in two ranges.
        let reciprocal = self.divide_f64(Operand::f64(1.0), z);
        let left = self.ratio_f64(reciprocal, &LEFT_P, &LEFT_Q);
        let right = self.ratio_f64(reciprocal, &RIGHT_P, &RIGHT_Q);
        let ratio = self.choose((Compare::Lt, t, Operand::f64(1.0 / 0.35)), TY, left, right);
        let shift = self.f64_op(BinaryOp::Add, ratio, Operand::f64(-0.5625));
        let negative = self.unary(ptx::UnaryOp::Neg, TY, t);
        let exponent = self.fma(TY, negative, t, shift).into();
        let power = self.exp_f64(exponent);
        let tail = self.divide_f64(power, t);
        let tail = self.f64_op(BinaryOp::Sub, Operand::f64(1.0), tail);
        let far = self.choose((Compare::Lt, t, Operand::f64(1.25)), TY, middle, tail);
        let far = self.choose(
            (Compare::Lt, t, Operand::f64(6.0)),
            TY,
            far,
            Operand::f64(1.0),
        );
        let far = self.with_sign(TY, x, far);
        // The comparison fails for NaN, which the first range yields.
        self.choose(
            (Compare::Ge, t, Operand::f64(0.843_75)),
            TY,
            far,
            near.into(),
        )
    }

    /// A quotient of polynomials, highest powers first.
    fn ratio_f64(&mut self, x: Operand, p: &[f64], q: &[f64]) -> Operand {
        let (p, q) = (self.polynomial_f64(x, p), self.polynomial_f64(x, q));
        self.divide_f64(p, q)
    }
}

const ERX: f64 = 8.450_629_115_104_675e-1;
const NEAR_P: [f64; 5] = [
    -2.376_301_665_665_016_3e-5,
    -5.770_270_296_489_442e-3,
    -2.848_174_957_559_851e-2,
    -3.250_421_072_470_015e-1,
    1.283_791_670_955_125_6e-1,
];
const NEAR_Q: [f64; 6] = [
    -3.960_228_278_775_368e-6,
    1.324_947_380_043_216_4e-4,
    5.081_306_281_875_766e-3,
    6.502_224_998_876_729e-2,
    3.979_172_239_591_553_5e-1,
    1.0,
];
const MIDDLE_P: [f64; 7] = [
    -2.166_375_594_868_790_8e-3,
    3.547_830_432_561_823_6e-2,
    -1.108_946_942_823_966_8e-1,
    3.183_466_199_011_617_5e-1,
    -3.722_078_760_357_013e-1,
    4.148_561_186_837_483_3e-1,
    -2.362_118_560_752_659_4e-3,
];
const MIDDLE_Q: [f64; 7] = [
    1.198_449_984_679_911e-2,
    1.363_708_391_202_905e-2,
    1.261_712_198_087_616_4e-1,
    7.182_865_441_419_627e-2,
    5.403_979_177_021_71e-1,
    1.064_208_804_008_442_3e-1,
    1.0,
];
const LEFT_P: [f64; 8] = [
    -9.814_329_344_169_145,
    -8.128_743_550_630_66e1,
    -1.846_050_929_067_110_4e2,
    -1.623_966_694_625_734_7e2,
    -6.237_533_245_032_601e1,
    -1.055_862_622_532_329_1e1,
    -6.938_585_727_071_818e-1,
    -9.864_944_034_847_148e-3,
];
const LEFT_Q: [f64; 9] = [
    -6.042_441_521_485_81e-2,
    6.570_249_770_319_282,
    1.086_350_055_417_794_4e2,
    4.290_081_400_275_678e2,
    6.453_872_717_332_679e2,
    4.345_658_774_752_292_3e2,
    1.376_577_541_435_190_4e2,
    1.965_127_166_743_925_7e1,
    1.0,
];
const RIGHT_P: [f64; 7] = [
    -4.835_191_916_086_514e2,
    -1.025_095_131_611_077_2e3,
    -6.375_664_433_683_896e2,
    -1.606_363_848_558_219_2e2,
    -1.775_795_491_775_475_2e1,
    -7.992_832_376_805_23e-1,
    -9.864_942_924_700_1e-3,
];
const RIGHT_Q: [f64; 8] = [
    -2.244_095_244_658_582e1,
    4.745_285_412_069_554e2,
    2.553_050_406_433_164_4e3,
    3.199_858_219_508_595_5e3,
    1.536_729_586_084_437e3,
    3.257_925_129_965_739e2,
    3.033_806_074_348_245_8e1,
    1.0,
];
