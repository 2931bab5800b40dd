//! What a launch passes for each parameter of a kernel.

use gluon_lang::lang::{InAggregates, ParamHandle, ParamStruct, Ptr, Scalar};

use crate::buffer::Buffer;
use crate::case::{Input, Output};
use crate::element::DeviceElement;
use crate::error::Result;
use crate::kernel::Packing;
use crate::mapped::MappedBuffer;

/// A host value that can be passed for a kernel parameter whose handle is `H`.
#[diagnostic::on_unimplemented(
    message = "a launch cannot pass `{Self}` for a parameter of type `{H}`",
    label = "this argument does not fit its parameter",
    note = "pass `&Buffer<T>`, `&MappedBuffer<T>` or `&buffer.view(..)` (in a case, `&Input<T>` or `&Output<T>`) for `Ptr<T>`, `buffer.view([rows, columns])` (in a case, \
            also `&Input<T>` or `&Output<T>`) for `TensorMap<T>`, a number of the same type for a number, an array of these for an array, and a tuple of these for a struct"
)]
pub trait Argument<H: ParamHandle> {
    /// Appends the parameter's bytes.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`](crate::Error::DeviceMismatch) for a buffer of another device, and what copying an input there ended with.
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()>;
}

impl<T: DeviceElement> Argument<Scalar<T>> for T {
    #[inline]
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        packing.push(T::bytes_of(std::slice::from_ref(self)), size_of::<T>());
        Ok(())
    }
}

impl<T: DeviceElement> Argument<Ptr<T>> for &Buffer<T> {
    #[inline]
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        packing.expect_own(self.device())?;
        self.note_use();
        packing.push_buffer(self.address(), (self.len() * size_of::<T>()) as u64);
        Ok(())
    }
}

impl<T: DeviceElement> Argument<Ptr<T>> for &MappedBuffer<T> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        packing.expect_own(self.device())?;
        self.note_use();
        packing.push_mapped(self.address(), (self.len() * size_of::<T>()) as u64);
        Ok(())
    }
}

impl<T: DeviceElement> Argument<Ptr<T>> for &Input<T> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        let buffer = self.copy_on_device(packing.device(), packing.copy())?;
        Argument::<Ptr<T>>::pack(&&*buffer, packing)
    }
}

impl<T: DeviceElement> Argument<Ptr<T>> for &Output<T> {
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        let buffer = self.copy_on_device(packing.device(), packing.copy())?;
        Argument::<Ptr<T>>::pack(&&*buffer, packing)
    }
}

impl<H: InAggregates, A: Argument<H>, const N: usize> Argument<[H; N]> for [A; N] {
    #[inline]
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
        self.iter().try_for_each(|element| element.pack(packing))
    }
}

/// A tuple of host values for a kernel whose handles are `H`.
#[diagnostic::on_unimplemented(
    message = "these arguments do not fit the kernel's parameters `{H}`",
    label = "given `{Self}`",
    note = "give a tuple with one argument for each parameter, in order; a single argument is `(&x,)`"
)]
pub trait Arguments<H> {
    /// Appends the bytes of every parameter.
    ///
    /// # Errors
    /// As for [`Argument::pack`].
    fn pack(&self, packing: &mut Packing<'_>) -> Result<()>;
}

impl Arguments<()> for () {
    fn pack(&self, _packing: &mut Packing<'_>) -> Result<()> {
        Ok(())
    }
}

macro_rules! tuples {
    ($($argument:ident: $handle:ident),+) => {
        impl<$($argument: Argument<$handle>, $handle: ParamHandle),+> Arguments<($($handle,)+)> for ($($argument,)+) {
            #[inline]
            #[allow(non_snake_case, reason = "the type's name serves as the variable's")]
            fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
                let ($($argument,)+) = self;
                $($argument.pack(packing)?;)+
                Ok(())
            }
        }

        /// What is passed for a struct: its fields, in order.
        impl<Struct, $($argument: Argument<$handle>, $handle: ParamHandle),+> Argument<Struct> for ($($argument,)+)
        where
            Struct: ParamStruct<Fields = ($($handle,)+)>,
        {
            #[inline]
            fn pack(&self, packing: &mut Packing<'_>) -> Result<()> {
                Arguments::<Struct::Fields>::pack(self, packing)
            }
        }
    };
}

tuples!(A: HA);
tuples!(A: HA, B: HB);
tuples!(A: HA, B: HB, C: HC);
tuples!(A: HA, B: HB, C: HC, D: HD);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2, H2: HH2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2, H2: HH2, I2: HI2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2, H2: HH2, I2: HI2, J2: HJ2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2, H2: HH2, I2: HI2, J2: HJ2, K2: HK2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2, H2: HH2, I2: HI2, J2: HJ2, K2: HK2, L2: HL2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2, H2: HH2, I2: HI2, J2: HJ2, K2: HK2, L2: HL2, M2: HM2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2, H2: HH2, I2: HI2, J2: HJ2, K2: HK2, L2: HL2, M2: HM2, N2: HN2);
tuples!(A: HA, B: HB, C: HC, D: HD, E: HE, F: HF, G: HG, I: HI, J: HJ, K: HK, L: HL, M: HM, N: HN, O: HO, P: HP, Q: HQ, R: HR, S: HS, T: HT, U: HU, V: HV, W: HW, X: HX, Y: HY, Z: HZ, A2: HA2, B2: HB2, C2: HC2, D2: HD2, E2: HE2, F2: HF2, G2: HG2, H2: HH2, I2: HI2, J2: HJ2, K2: HK2, L2: HL2, M2: HM2, N2: HN2, O2: HO2);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Device;
    use crate::error::Error;
    use crate::launch::ParameterBlock;

    #[allow(
        clippy::needless_pass_by_value,
        reason = "a tuple of references reads best by value"
    )]
    fn pack<H, A: Arguments<H>>(device: &Device, arguments: A) -> Result<ParameterBlock> {
        let mut block = ParameterBlock::new();
        arguments
            .pack(&mut Packing::new(device, "k", &[], &mut block))
            .map(|()| block)
    }

    #[test]
    fn arguments_lie_in_order_at_their_alignment() {
        let device = Device::emulator();
        let x = Buffer::from_slice(&device, &[1.0f32]).unwrap();
        let block = pack::<(Scalar<i32>, Ptr<f32>, Scalar<bool>, Scalar<u16>), _>(
            &device,
            (-2, &x, true, 7),
        )
        .unwrap();
        assert_eq!(block.offsets(), [0, 8, 16, 18]);
        assert_eq!(block.bytes()[..4], (-2i32).to_le_bytes());
        assert_eq!(block.bytes()[8..16], x.address().to_le_bytes());
        assert_eq!(block.bytes()[16..], [1, 0, 7, 0]);
        assert!(pack::<(), _>(&device, ()).unwrap().is_empty());
        let block = pack::<([Scalar<i32>; 2], [Ptr<f32>; 2], [Scalar<u8>; 0]), _>(
            &device,
            ([5, -2], [&x, &x], [0_u8; 0]),
        );
        assert_eq!(block.unwrap().offsets(), [0, 4, 8, 16]);
    }

    #[test]
    fn a_view_stands_for_a_pointer_to_its_first_element() {
        let device = Device::emulator();
        let x = Buffer::from_slice(&device, &[0.0f32; 24]).unwrap();
        let view = x.view([2, 4]).with_offset(16);
        let block = pack::<(Ptr<f32>,), _>(&device, (&view,)).unwrap();
        assert_eq!(block.bytes(), (x.address() + 64).to_le_bytes());
        assert_eq!(block.buffer(0), x.address() + 64..x.address() + 96);
    }

    #[test]
    fn a_buffer_of_another_device_is_refused() {
        let x = Buffer::<f32>::new(&Device::emulator(), 1).unwrap();
        let packed = pack::<(Ptr<f32>,), _>(&Device::emulator(), (&x,));
        assert!(matches!(
            packed,
            Err(Error::DeviceMismatch {
                what: "a buffer",
                ..
            })
        ));
    }
}
