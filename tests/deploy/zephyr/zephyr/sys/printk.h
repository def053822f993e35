#ifndef ZEPHYR_SYS_PRINTK_H
#define ZEPHYR_SYS_PRINTK_H

#include <stdio.h>

#define printk printf

#endif
