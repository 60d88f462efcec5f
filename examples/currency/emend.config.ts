import { defineConfig, timeline } from 'emend';

const tender = { key: ['region', 'currency'], period: ['valid_from', 'valid_to'] } as const;

export default defineConfig({
  targets: {
    /** Corrections arrive live, release by release. */
    tender: timeline('public.tender', tender),
    /** The same releases, imported with the dates on which each was known. */
    tender_history: timeline('public.tender_history', tender),
  },
});
