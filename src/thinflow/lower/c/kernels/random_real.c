/* A real from 0 to below 1, of 23 bits. */
static float random_real(uint32_t bits)
{
    return (float)(bits & 0x7fffffu) * (1.0f / 8388608.0f);
}
