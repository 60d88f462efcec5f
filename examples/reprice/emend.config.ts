import { defineConfig, timeline } from 'emend';

export default defineConfig({
  targets: {
    fares: timeline('public.fares', { key: ['route'], period: ['valid_from', 'valid_to'] }),
  },
});
