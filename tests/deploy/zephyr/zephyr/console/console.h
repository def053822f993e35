#ifndef ZEPHYR_CONSOLE_CONSOLE_H
#define ZEPHYR_CONSOLE_CONSOLE_H

#include <stdio.h>

static inline int console_init(void)
{
    return 0;
}

static inline int console_getchar(void)
{
    return getchar();
}

#endif
